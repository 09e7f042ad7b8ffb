"""The newest records of a quarantine that is larger than memory, and of which one batch may be all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from tidemill.ledger.quarantine_rows import newest_of, newest_rejected
from tidemill.payload.quarantine import QUARANTINE_SCHEMA

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIMIT = 20


def record(offset: int, value: bytes, at: datetime = NOON, partition: int = 0) -> dict[str, Any]:
    place = {"topic": "orders", "partition": partition, "offset": offset}
    return {**place, "reason": "not JSON", "value": value, "arrived_at": at, "quarantined_at": at}


def write(path: Path, records: list[dict[str, Any]]) -> None:
    rows = pa.Table.from_pylist(records, schema=QUARANTINE_SCHEMA)
    deltalake.write_deltalake(str(path), rows, mode="append")


def peak_bytes_of(act: Callable[[], object]) -> int:
    """Return the maximum of bytes that Arrow had allocated at once during `act`."""
    usual = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counted)
    try:
        act()
    finally:
        pa.set_memory_pool(usual)
    peak: int = counted.max_memory()
    return peak


def test_the_newest_are_those_of_a_sort_of_all_with_their_own_bytes(tmp_path: Path) -> None:
    chance = random.Random(7)
    moments = [NOON + timedelta(minutes=minute) for minute in range(4)]
    records = [
        record(offset, b"record %d of %d" % (offset, partition), chance.choice(moments), partition)
        for offset in range(300)
        for partition in range(3)
    ]
    chance.shuffle(records)
    for begin in range(0, len(records), 100):
        write(tmp_path, records[begin : begin + 100])
    for limit in (1, LIMIT, 500, 5000):
        expected = sorted(
            records, key=lambda row: (row["quarantined_at"], row["partition"], row["offset"]), reverse=True
        )[:limit]
        shown = newest_rejected(str(tmp_path), limit, raw=True)
        assert [row["raw"] for row in shown] == [row["value"].decode() for row in expected]
        without = newest_rejected(str(tmp_path), limit, raw=False)
        assert [row["offset"] for row in without] == [row["offset"] for row in expected]
        assert set(without[0]) == {*shown[0]} - {"raw"}


def test_no_more_than_the_newest_and_one_part_are_in_memory() -> None:
    rows, alive = 10_000, []

    def parts() -> Iterator[pa.RecordBatch]:
        for number in range(20):
            records = [record(number * rows + place, b"") for place in range(rows)]
            alive.append(pa.total_allocated_bytes())
            yield pa.RecordBatch.from_pylist(records, schema=QUARANTINE_SCHEMA)

    newest = newest_of(parts(), LIMIT)
    assert [row["offset"] for row in newest] == [20 * rows - 1 - place for place in range(LIMIT)]
    # Before each part: nothing but the rows that are kept, and the part before, which the loop still names.
    assert (
        max(alive) - alive[0]
        < 2
        * pa.RecordBatch.from_pylist(
            [record(place, b"") for place in range(rows)], schema=QUARANTINE_SCHEMA
        ).get_total_buffer_size()
    )


@pytest.mark.parametrize("raw", [False, True])
def test_a_batch_that_was_rejected_as_a_whole_is_not_loaded_as_a_whole(tmp_path: Path, raw: bool) -> None:
    count, size = 20_000, 1_000
    # All rows have the same time and are in one file, as after one batch.
    chance = random.Random(7)
    write(tmp_path, [record(offset, chance.randbytes(size)) for offset in range(count)])
    shown: list[dict[str, Any]] = []
    peak = peak_bytes_of(lambda: shown.extend(newest_rejected(str(tmp_path), LIMIT, raw=raw)))
    assert [row["offset"] for row in shown] == [count - 1 - place for place in range(LIMIT)]
    assert peak < count * size / 2


def test_a_record_without_bytes_and_a_quarantine_without_records_are_shown(tmp_path: Path) -> None:
    assert newest_rejected(str(tmp_path), LIMIT, raw=True) == []
    write(tmp_path, [])
    assert newest_rejected(str(tmp_path), LIMIT, raw=True) == []
    write(tmp_path, [{"reason": "null", "quarantined_at": NOON}])
    assert [row["raw"] for row in newest_rejected(str(tmp_path), LIMIT, raw=True)] == [None]


def test_a_record_that_claims_to_be_of_the_year_10000_is_shown(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist(
        [record(1, b"x") | {"arrived_at": 253_402_300_800_000_000}], QUARANTINE_SCHEMA
    )
    deltalake.write_deltalake(str(tmp_path), rows)
    (shown,) = newest_rejected(str(tmp_path), LIMIT, raw=False)
    assert (shown["offset"], shown["arrived_at"]) == (1, "+10000-01-01T00:00:00.000000Z")
