"""The watermarks of several streams in a checkpoint: read, copied and deleted with their batches."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemill.checkpoint.stream_watermarks import (
    delete_watermarks,
    moments_of,
    read_watermarks,
    write_watermarks,
)
from tidemill.checkpoint.verbs.generation_copy import is_kept
from tidemill.errors import DataError
from tidemill.storage.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def test_a_batch_begins_with_the_watermarks_of_the_newest_batch_before(store: Store) -> None:
    checkpoint = f"{store.root}/g0001"
    assert read_watermarks(store, checkpoint) == {}
    for batch_id in (8, 9, 10):
        write_watermarks(store, checkpoint, batch_id, {"a": batch_id, "b": None})
    assert read_watermarks(store, checkpoint) == {"a": 10, "b": None}
    # Batch 10 is repeated.
    assert read_watermarks(store, checkpoint, before=10) == {"a": 9, "b": None}
    # Batch 11 was all written before a crash and was not read again.
    assert read_watermarks(store, checkpoint, before=12) == {"a": 10, "b": None}
    delete_watermarks(store, checkpoint, before=10)
    assert read_watermarks(store, checkpoint, before=10) == {}
    assert read_watermarks(store, checkpoint)["a"] == 10


def test_a_damaged_file_is_refused(store: Store) -> None:
    checkpoint = f"{store.root}/g0001"
    store.write(f"{checkpoint}/watermarks/3", b'{"a": 1')
    with pytest.raises(DataError) as error:
        read_watermarks(store, checkpoint)
    assert (error.value.error_id, error.value.facts["file"]) == (
        "TIDE-STOR-001",
        f"{checkpoint}/watermarks/3",
    )


def test_watermarks_are_shown_as_spark_shows_them() -> None:
    shown = moments_of({"a": 1772330160000, "b": None, "c": 0, "d": -120_000, "e": 10**17})
    assert shown == {
        "a": datetime(2026, 3, 1, 1, 56, tzinfo=UTC),
        **dict.fromkeys("bcd"),
        "e": datetime(9999, 12, 31, tzinfo=UTC),
    }


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("watermarks/4", True),
        ("watermarks/5", False),
        ("watermarks/.4.crc", False),
        ("offsets/5", False),
        ("state/0/_metadata/v2/5", False),
        ("sources/plant_a/0", True),
    ],
)
def test_a_copy_after_a_batch_has_its_watermarks_and_no_later_ones(name: str, kept: bool) -> None:
    assert is_kept(name, batch_id=4) is kept
