"""Files of a joined folder are read as they were listed, or not at all."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from tidemill.errors import DataError
from tidemill.payload.files import byte_ranges
from tidemill.payload.files.byte_ranges import FileRange
from tidemill.storage.object_stores import NO_ACCESS

NOON = datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)


def listed(uri: str, size: int, modified: datetime = NOON, *, as_listed: bool = True) -> FileRange:
    return FileRange(uri, uri, modified, 0, size, size, None, NO_ACCESS, as_listed)


def refused(source: FileRange) -> str:
    with pytest.raises(DataError) as error:
        list(source.blocks())
    assert error.value.error_id == "TIDE-DATA-012"
    return str(error.value.facts["reason"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a b#.csv"
    path.write_bytes(b"a,mill\n")
    nanoseconds = int(NOON.timestamp() * 1000) * 1_000_000
    os.utime(path, ns=(nanoseconds, nanoseconds))
    return path


def test_a_file_is_read_as_it_was_listed(file: Path) -> None:
    source = listed(file.as_uri(), 7)
    assert b"".join(source.blocks()) == b"a,mill\n"
    # Replace the content without changing the size, after the file was opened.
    file.write_bytes(b"a,pond\n")
    assert "modification time" in refused(source)
    assert b"".join(listed(file.as_uri(), 7, as_listed=False).blocks()) == b"a,pond\n"


@pytest.mark.parametrize("change", [timedelta(milliseconds=1), timedelta(hours=-1)])
def test_a_file_of_another_time_or_size_is_refused(file: Path, change: timedelta) -> None:
    assert "modification time" in refused(listed(file.as_uri(), 7, NOON + change))
    assert "size" in refused(listed(file.as_uri(), 6))


def test_an_object_is_compared_to_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(byte_ranges, "open_objects", lambda _root, _access: store)
    store.put("in/a.csv", b"a,mill\n")
    modified = store.head("in/a.csv")["last_modified"].replace(microsecond=0)
    assert b"".join(listed("abfss://c@x/in/a.csv", 7, modified).blocks()) == b"a,mill\n"
    assert "size" in refused(listed("abfss://c@x/in/a.csv", 6, modified))
    earlier = modified - timedelta(seconds=1)
    assert "modification time" in refused(listed("abfss://c@x/in/a.csv", 7, earlier))
