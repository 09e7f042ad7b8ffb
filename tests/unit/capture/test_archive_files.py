"""Contents of archive files, including damaged ones."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import fastavro
import pytest

from tests.support.capture_files import SCHEMA, CaptureFolder, Event, blocks_of, capture_file
from tidemill.capture.archive import Slice
from tidemill.capture.archive_files import ArchiveFile, ArchiveFolder, Run, archive_folder
from tidemill.errors import DataError
from tidemill.sources.archived_events import events_of
from tidemill.spec.capture import CaptureArchive

START = datetime(2026, 11, 5, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def events(*numbers: int) -> list[Event]:
    return [Event(number, at(number), f"e{number}".encode()) for number in numbers]


@pytest.fixture
def captured(tmp_path: Path) -> CaptureFolder:
    return CaptureFolder(tmp_path / "captured", "plant-north", "readings")


def folder(captured: CaptureFolder) -> ArchiveFolder:
    archive = CaptureArchive(path="captured")
    return archive_folder(archive, str(captured.folder), captured.namespace, captured.hub)


def index(captured: CaptureFolder) -> dict[int, list[ArchiveFile]]:
    return folder(captured).index(lambda _: False)


def test_each_file_tells_its_numbers_and_when_they_came(captured: CaptureFolder) -> None:
    captured.write(0, at(5), events(5, 6, 7))
    captured.write(0, at(10))
    captured.write(1, at(5), events(0, 1, 9, 4, 3))
    (captured.folder / "notes.txt").write_text("not one of them")

    found = index(captured)

    assert [(file.moment, file.runs, file.twice) for file in found[0]] == [
        (at(10), (), ()),
        (at(5), (Run(5, 8, at(5), at(7)),), ()),
    ]
    assert found[1][0].runs == (Run(0, 2, at(0), at(1)), Run(3, 5, at(3), at(4)), Run(9, 10, at(9), at(9)))


def test_a_number_that_a_file_holds_twice_is_named_and_read_once(captured: CaptureFolder) -> None:
    path = captured.write(0, at(0), events(0, 1, 2, 1, 2, 3))

    (file,) = index(captured)[0]

    assert (file.runs, file.twice) == ((Run(0, 4, at(0), at(3)),), ((1, 3),))
    wanted = Slice(path=file.path, partition=0, first=1, end=4)
    assert [event.number for event in events_of(folder(captured).events, wanted)] == [1, 2, 3]
    assert path.is_file()


def test_older_files_are_not_opened_once_it_is_enough(captured: CaptureFolder) -> None:
    captured.write(0, at(0)).write_bytes(b"damaged")
    captured.write(0, at(5), events(5))
    captured.write(0, at(10), events(6))

    found = folder(captured).index(lambda file: file.runs[0].first == 5)

    assert [file.moment for file in found[0]] == [at(10), at(5)]


def test_an_event_comes_with_key_time_body_and_properties(captured: CaptureFolder) -> None:
    noon, midnight = at(12 * 60 + 3), at(3)
    properties = {"a": 1, "b": b"\xfe", "c": 0.5, "d": "ä", "unset": None}
    captured.write(
        0,
        at(0),
        [
            Event(0, noon, b"\xff", "boiler", properties),
            Event(1, midnight, None),
        ],
    )
    (file,) = index(captured)[0]

    first, second = folder(captured).events(file.path)

    assert (first.enqueued, first.key, first.body) == (noon, b"boiler", b"\xff")
    assert first.properties == properties
    assert (second.enqueued, second.key, second.body, second.properties) == (midnight, None, None, {})


def test_a_file_cut_off_or_damaged_anywhere_is_refused_or_lacks_whole_events(tmp_path: Path) -> None:
    """Never an event that is half there: what a cut at the end of a block takes is seen as a gap."""
    captured = CaptureFolder(tmp_path, "plant-north", "readings")
    whole = capture_file(events(*range(300)))
    chosen = random.Random(13)
    cuts = [whole[: chosen.randrange(len(whole))] for _ in range(300)]
    changed = [bytearray(whole) for _ in range(300)]
    for content in changed:
        content[chosen.randrange(len(whole))] ^= 1 << chosen.randrange(8)
    results = [held(captured, content) for content in [b"", *cuts]]
    assert {result for result in results if isinstance(result, str)} == {"TIDE-HUB-001"}
    assert all(result < 300 for result in results if isinstance(result, int))
    after = {held(captured, bytes(content)) for content in changed}
    assert {result for result in after if isinstance(result, str)} <= {"TIDE-HUB-001", "TIDE-HUB-002"}
    assert max(result for result in after if isinstance(result, int)) == 300


def held(captured: CaptureFolder, content: bytes) -> int | str:
    """Return the number of events in a file with this content, or the id of the error."""
    captured.write(0, at(0)).write_bytes(content)
    try:
        ((file,),) = index(captured).values()
    except DataError as error:
        return error.error_id
    return sum(run.end - run.first for run in file.runs)


@pytest.mark.parametrize("empty", [1, 2, 3])
def test_empty_blocks_of_a_file_hide_no_event(captured: CaptureFolder, empty: int) -> None:
    none: list[list[Event]] = [[]] * empty
    content = blocks_of(*none, events(0, 1), *none, events(2), *none, events(3), *none)
    captured.write(0, at(0)).write_bytes(content)

    (file,) = index(captured)[0]

    assert file.runs == (Run(0, 4, at(0), at(3)),)
    wanted = Slice(path=file.path, partition=0, first=0, end=4)
    assert [event.body for event in events_of(folder(captured).events, wanted)] == [
        b"e0",
        b"e1",
        b"e2",
        b"e3",
    ]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Properties", {"type": "array", "items": "string"}),
        ("SystemProperties", {"type": "long", "logicalType": "timestamp-millis"}),
    ],
)
def test_a_file_with_nested_or_logical_properties_is_refused(
    captured: CaptureFolder, name: str, values: dict[str, str]
) -> None:
    fields = [
        {**field, "type": {"type": "map", "values": values}} if field["name"] == name else field
        for field in SCHEMA["fields"]
    ]
    with captured.write(0, at(0)).open("wb") as file:
        fastavro.writer(file, {**SCHEMA, "fields": fields}, [])
    with pytest.raises(DataError) as refused:
        index(captured)
    assert (refused.value.error_id, refused.value.facts["field"]) == ("TIDE-HUB-002", name)


def test_another_avro_file_is_not_taken_for_one(captured: CaptureFolder) -> None:
    path = captured.write(0, at(0))
    schema = {"type": "record", "name": "EventData", "fields": [{"name": "SequenceNumber", "type": "long"}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"SequenceNumber": 1}])
    with pytest.raises(DataError) as refused:
        index(captured)
    assert refused.value.error_id == "TIDE-HUB-002"
    assert refused.value.facts["lacks"] == "Body, EnqueuedTimeUtc, Properties, SystemProperties"


def test_events_that_are_gone_since_the_plan_are_missed(captured: CaptureFolder) -> None:
    captured.write(0, at(0), events(0, 1, 2))
    (file,) = index(captured)[0]
    captured.write(0, at(0), events(0, 2))
    with pytest.raises(DataError) as refused:
        list(events_of(folder(captured).events, Slice(path=file.path, partition=0, first=0, end=3)))
    assert (refused.value.error_id, refused.value.facts["missing"]) == ("TIDE-HUB-005", 1)


def test_a_file_that_is_gone_since_the_plan_is_missed_by_its_name(captured: CaptureFolder) -> None:
    wanted = Slice(path=captured.write(0, at(0), events(0, 1)).name, partition=0, first=0, end=2)
    with pytest.raises(DataError) as refused:
        list(events_of(folder(captured).events, wanted))
    facts = {"file": wanted.path, "missing": 2}
    assert (refused.value.error_id, refused.value.facts) == ("TIDE-HUB-005", facts)
