"""Files of sources below `sources/`, and their offset documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.checkpoints import TABLE_ID, track_schema
from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.checkpoint.reading.source_logs import (
    DeltaOffset,
    ReadFile,
    TrackedSchema,
    file_log_id,
    gaps_in_file_log,
    parse_delta_offset,
    parse_log,
    read_file_log,
    read_schema_log,
    source_names,
)
from tidemill.storage.store import Store

MODIFIED = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def entry(number: int, log_id: int | None = None) -> str:
    document = {
        "path": f"file:///landing/{number}.json",
        "timestamp": 1_700_000_000_000,
        "batchId": log_id if log_id is not None else number,
    }
    return json.dumps(document)


class FileLog:
    """The folder of a files source."""

    def __init__(self, root: Path) -> None:
        self.store = Store(str(root))
        self.path = str(root / "g0001")
        self.folder = root / "g0001" / "sources" / "0"
        self.folder.mkdir(parents=True)

    def write(self, name: str, *numbers: int) -> None:
        (self.folder / name).write_text("\n".join(["v1", *(entry(number) for number in numbers)]))

    def read(self) -> list[ReadFile]:
        return read_file_log(self.store, self.path, self.store.list_files(self.path))

    def gaps(self) -> list[int]:
        return gaps_in_file_log(self.path, self.store.list_files(self.path))


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    return FileLog(tmp_path)


def test_the_files_of_all_batches_are_read_in_order(log: FileLog) -> None:
    for number in range(12):
        log.write(str(number), number)
    assert log.read() == [ReadFile(f"file:///landing/{n}.json", MODIFIED, n) for n in range(12)]
    assert log.gaps() == []


def test_a_compact_entry_holds_all_before_it(log: FileLog) -> None:
    log.write("1", 1)
    log.write("2", 2)
    log.write("2.compact", 0, 1, 2)
    log.write("3", 3)
    assert [file.log_id for file in log.read()] == [0, 1, 2, 3]
    assert log.gaps() == []


def test_a_missing_entry_is_told_unless_a_compact_one_holds_it(log: FileLog) -> None:
    log.write("2.compact", 0, 1, 2)
    log.write("3", 3)
    log.write("5", 5)
    assert log.gaps() == [4]


def test_checksums_and_unfinished_files_are_no_entries(log: FileLog) -> None:
    log.write("0", 0)
    for name in (".0.crc", ".1.4f6a.tmp", "note"):
        (log.folder / name).write_bytes(b"")
    assert [file.log_id for file in log.read()] == [0]


def test_no_log_is_no_file_and_no_gap(log: FileLog) -> None:
    assert (log.read(), log.gaps()) == ([], [])


@pytest.mark.parametrize("content", ["", "v1\n{", "v2\n{}", "v1\n[]", 'v1\n{"path":"x"}'])
def test_a_torn_entry_is_refused(log: FileLog, content: str) -> None:
    (log.folder / "0").write_text(content)
    with pytest.raises(TornFileError):
        log.read()


def test_kafka_begins_with_a_nul_byte() -> None:
    assert parse_log(b'\0v1\n{"orders":{"0":7}}') == [{"orders": {"0": 7}}]


def test_a_delta_offset_names_the_table_and_the_version() -> None:
    document = {
        "sourceVersion": 1,
        "reservoirId": "6a1c",
        "reservoirVersion": 12,
        "index": -1,
        "isStartingVersion": False,
    }
    assert parse_delta_offset(document) == DeltaOffset("6a1c", 12, -1, is_snapshot=False)


@pytest.mark.parametrize("document", [None, 17, {"orders": {"0": 5}}, {"logOffset": 3}])
def test_an_offset_of_another_source_is_no_delta_offset(document: object) -> None:
    assert parse_delta_offset(document) is None


def test_a_files_offset_names_an_entry_of_the_log() -> None:
    assert file_log_id({"logOffset": 3}) == 3
    assert file_log_id({"orders": {"0": 5}}) is None
    assert file_log_id(None) is None


def test_sources_are_known_by_their_folders(tmp_path: Path) -> None:
    for name in ("0", "clicks"):
        (tmp_path / "g0001/sources" / name).mkdir(parents=True)
        (tmp_path / "g0001/sources" / name / "0").write_text("v1\n{}")
    files = Store(str(tmp_path)).list_files(str(tmp_path / "g0001"))
    assert source_names(str(tmp_path / "g0001"), files) == ["0", "clicks"]


def read_schemas(root: Path) -> list[TrackedSchema]:
    store, path = Store(str(root)), str(root / "g0001")
    return read_schema_log(store, path, store.list_files(path))


def test_schemas_that_a_delta_source_tracked_are_read_by_number(tmp_path: Path) -> None:
    assert read_schemas(tmp_path) == []
    for number in range(11):
        track_schema(tmp_path / "g0001", number, 10 * number, "id", f"c{number}")
    schemas = read_schemas(tmp_path)
    assert [schema.number for schema in schemas] == list(range(11))
    assert schemas[-1] == TrackedSchema(TABLE_ID, 10, 100, ("id", "c10"))


def test_a_torn_schema_is_refused(tmp_path: Path) -> None:
    file = track_schema(tmp_path / "g0001", 0, 1, "id")
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])
        with pytest.raises(TornFileError):
            read_schemas(tmp_path)
