"""Files of rejected records that share some: of each record one copy is committed, the others are not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.payload.rejected_files import (
    PLACE,
    EachOnce,
    RejectedFile,
    TaskTrace,
    content_of,
    stretches_of,
)
from tidemill.storage.parquet_part import PartFile, write_part

SCHEMA = pa.schema(
    [("reason", pa.string()), (PLACE[0], pa.string()), (PLACE[1], pa.int32()), (PLACE[2], pa.int64())]
)
Places = list[tuple[str, int, int]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "quarantine"


def hand_in(folder: Path, name: str, places: Places, stream: str = "") -> RejectedFile:
    """Return a file with one row of each place, in batches of two."""
    rows = [dict(zip(["reason", *PLACE], ("malformed_json", *place), strict=True)) for place in places]
    batches = pa.Table.from_pylist(rows, schema=SCHEMA).to_batches(max_chunksize=2)
    part = write_part(str(folder), f"{name}.parquet", SCHEMA, batches)
    assert part is not None
    return RejectedFile(part, stretches_of(batches), stream=stream)


def places_in(folder: Path, parts: list[PartFile]) -> Counter[tuple[str, int, int]]:
    """Return how often each place is in the files, after checking their sizes and row counts."""
    assert all((folder / part.name).stat().st_size == part.size for part in parts)
    tables = [pq.read_table(folder / part.name) for part in parts]
    assert [table.num_rows for table in tables] == [part.rows for part in parts]
    return Counter(tuple(row[name] for name in PLACE) for table in tables for row in table.to_pylist())


def offsets(*numbers: int, partition: int = 0) -> Places:
    return [("orders", partition, number) for number in numbers]


def test_files_that_share_nothing_are_not_opened(folder: Path) -> None:
    files = [
        hand_in(folder, "a", offsets(1, 2) + offsets(7, partition=1)),
        hand_in(folder, "b", offsets(3, 9) + offsets(8, 9, partition=1)),
        hand_in(folder, "c", [("payments", 0, 1)]),
    ]
    for file in folder.iterdir():
        file.unlink()
    assert EachOnce(str(folder)).files(files) == [file.part for file in files]


def test_one_file_is_committed_as_it_is(folder: Path) -> None:
    file = hand_in(folder, "a", offsets(1, 2))
    assert EachOnce(str(folder)).files([file]) == [file.part]
    assert EachOnce(str(folder)).files([]) == []


def test_of_two_equal_files_one_is_committed(folder: Path) -> None:
    files = [hand_in(folder, name, offsets(1, 2, 3)) for name in ("a", "b")]
    assert EachOnce(str(folder)).files(files) == [files[0].part]


def test_hubs_of_one_name_in_two_namespaces_have_records_of_their_own(folder: Path) -> None:
    files = [
        hand_in(folder, "a", offsets(1, 2), "north"),
        hand_in(folder, "b", offsets(1, 2, 3), "south"),
        hand_in(folder, "c", offsets(2, 3), "south"),
    ]
    parts = EachOnce(str(folder)).files(files)
    assert parts == [files[0].part, files[1].part]


def test_of_files_that_share_some_records_the_rest_is_made_anew(folder: Path) -> None:
    files = [
        hand_in(folder, "a", offsets(1, 4) + offsets(4, partition=1)),
        hand_in(folder, "b", offsets(2, 4, 5, 1, 6)),
        hand_in(folder, "c", offsets(3)),
    ]
    parts = EachOnce(str(folder)).files(files)
    assert places_in(folder, parts) == Counter(offsets(1, 2, 3, 4, 5, 6) + offsets(4, partition=1))
    assert [parts[0], parts[2]] == [files[0].part, files[2].part]
    assert (parts[1].rows, parts[1].name != files[1].part.name) == (3, True)


def test_what_the_table_has_already_is_left_out_of_a_past_that_is_read_again(folder: Path) -> None:
    known = {("orders", 0): pa.array([1, 2, 7])}
    files = [
        hand_in(folder, "a", offsets(1, 2, 3), "source"),
        hand_in(folder, "b", offsets(1, partition=1), "source"),
        hand_in(folder, "c", offsets(7), "source"),
    ]
    parts = EachOnce(str(folder), known=known).files(files)
    assert places_in(folder, parts) == Counter(offsets(3) + offsets(1, partition=1))


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_shared_each_record_is_committed_once(folder: Path, seed: int) -> None:
    chance = Random(seed)
    everything = [(topic, p, n) for topic in ("orders", "payments") for p in range(2) for n in range(20)]
    files = []
    for number in range(6):
        places = chance.sample(everything, chance.randrange(1, 30))
        files.append(hand_in(folder, str(number), places))
    sent = {tuple(place) for file in files for place in places_in(folder, [file.part])}
    parts = EachOnce(str(folder)).files(files)
    assert places_in(folder, parts) == Counter(sent)


def test_records_without_a_place_count_once_however_often_their_task_runs(folder: Path) -> None:
    """Task 1 runs again as task 4. Task 2 hands in two equal files, of two parts of its input."""
    runs = [(1, 0, "a"), (2, 1, "b"), (2, 1, "b"), (3, 2, "b"), (4, 0, "a"), (5, 1, "b"), (5, 1, "b")]
    files = [
        RejectedFile(PartFile(f"{place}.parquet", 1, 1, "{}"), {}, TaskTrace(*run))
        for place, run in enumerate(runs)
    ]
    kept = [part.name for part in EachOnce(str(folder)).files(files)]
    assert kept == ["0.parquet", "1.parquet", "2.parquet", "3.parquet"]


def test_records_without_a_place_that_two_streams_have_alike_are_both_kept(folder: Path) -> None:
    """Each stream has a separate stage, whose tasks begin with number 0."""
    files = [
        RejectedFile(PartFile(f"{attempt}.parquet", 1, 1, "{}"), {}, TaskTrace(attempt, 0, "a"), stream)
        for attempt, stream in enumerate(("north", "south", "north"))
    ]
    kept = [part.name for part in EachOnce(str(folder)).files(files)]
    assert kept == ["0.parquet", "1.parquet"]


def test_the_content_of_records_does_not_depend_on_batches_or_on_who_set_them_aside() -> None:
    rows = pa.table({"value": ["x", "y"], "run_id": ["a", "a"]}).to_batches()
    again = pa.table({"value": ["x", "y"], "run_id": ["b", "b"]}).to_batches(max_chunksize=1)
    other = pa.table({"value": ["x", "x"], "run_id": ["a", "a"]}).to_batches()
    assert content_of(rows, ["run_id"]) == content_of(again, ["run_id"]) != content_of(other, ["run_id"])


def test_records_with_a_time_that_python_does_not_hold_have_a_digest() -> None:
    def late(microseconds: int) -> list[pa.RecordBatch]:
        times = pa.array([microseconds], pa.int64()).view(pa.timestamp("us", "UTC"))
        return [pa.RecordBatch.from_arrays([times, pa.array(["r"])], ["event_time", "run_id"])]

    digests = {content_of(late(time), ["run_id"]) for time in (-(2**63), 0, 2**63 - 1)}
    assert len(digests) == 3
