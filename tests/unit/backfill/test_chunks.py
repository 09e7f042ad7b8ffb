"""Splitting a range into chunks: no record is left out, and none is in two chunks."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.backfill.chunks import MOST_CHUNKS, Chunk, check_chunk, cut_offsets, cut_times, parse_chunk
from tidemill.backfill.row_origin import EventWindow
from tidemill.backfill.rule import By
from tidemill.errors import UsageError
from tidemill.sources.offsets import records_between

DAY = datetime(2026, 1, 1, tzinfo=UTC)
FIVE = timedelta(minutes=5)
TUMBLING = EventWindow(kind="tumbling", length=FIVE, slide=FIVE, start_columns=("start",))
SLIDING = TUMBLING.model_copy(update={"kind": "sliding", "length": 2 * FIVE})


@pytest.mark.parametrize(
    ("text", "chunk"),
    [
        (None, None),
        ("1 day", Chunk(time=timedelta(days=1))),
        ("90m", Chunk(time=timedelta(minutes=90))),
        ("1000000", Chunk(records=1_000_000)),
    ],
)
def test_a_chunk_is_a_length_of_time_or_a_number_of_records(text: str | None, chunk: Chunk | None) -> None:
    assert parse_chunk(text) == chunk


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "many", "10 ms", "1 day; rm", "9" * 40, "{{ 7*7 }}"])
def test_another_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_chunk(text)
    assert (refused.value.error_id, refused.value.facts["value"]) == ("TIDE-BACK-001", ascii(text[:40]))


@pytest.mark.parametrize(
    ("by", "chunk", "window", "fix"),
    [
        ("everything", Chunk(records=5), None, "leave --chunk out"),
        ("record", Chunk(time=FIVE), None, "a number of records"),
        ("window", Chunk(records=5), TUMBLING, "a length of event time"),
        ("time", Chunk(records=5), None, "a length of event time"),
        ("window", Chunk(time=2 * FIVE), SLIDING, "smaller ranges"),
    ],
)
def test_a_range_is_cut_in_its_own_way_alone(
    by: By, chunk: Chunk, window: EventWindow | None, fix: str
) -> None:
    with pytest.raises(UsageError) as refused:
        check_chunk("orders", by, chunk, window)
    assert (refused.value.error_id, refused.value.facts["chunk"]) == ("TIDE-BACK-018", chunk.text())
    assert fix in refused.value.fix


@given(
    start=st.integers(0, 10_000), length=st.integers(1, 500), chunk=st.integers(1, 90), windows=st.booleans()
)
def test_chunks_of_time_adjoin_and_begin_where_windows_do(
    start: int, length: int, chunk: int, windows: bool
) -> None:
    unit = FIVE if windows else timedelta(minutes=1)
    times = (DAY + start * unit, DAY + (start + length) * unit)
    window = TUMBLING if windows else None
    parts = [part.times or () for part in cut_times("orders", times, timedelta(minutes=chunk), window)]
    assert (parts[0][0], parts[-1][1]) == times
    assert all(before[1] == after[0] for before, after in itertools.pairwise(parts))
    assert all(begin < end for begin, end in parts)
    if windows:
        assert all(TUMBLING.starts_in(begin, end) == (begin, end) for begin, end in parts)
    else:
        assert all(end - begin <= timedelta(minutes=chunk) for begin, end in parts)


POSITIONS = st.dictionaries(st.sampled_from("0123"), st.tuples(st.integers(0, 50), st.integers(-5, 80)))


@given(ranges=POSITIONS, records=st.integers(1, 100))
def test_chunks_of_records_adjoin_in_each_partition(ranges: dict[str, tuple[int, int]], records: int) -> None:
    start = {"orders": {partition: first for partition, (first, _) in ranges.items()}}
    end = {"orders": {partition: first + count for partition, (first, count) in ranges.items()}}
    parts = cut_offsets("orders", start, end, records)
    assert parts[0][0] == start
    reached = {p: max(first, end["orders"][p]) for p, first in start["orders"].items()}
    assert parts[-1][1]["orders"] == reached
    assert all(before[1] == after[0] for before, after in itertools.pairwise(parts))
    # Each partition is rounded on its own.
    assert all(records_between(*part) < records + len(ranges) for part in parts) or not ranges
    assert sum(records_between(*part) for part in parts) == sum(max(0, count) for _, count in ranges.values())


@pytest.mark.parametrize(
    "cut",
    [
        lambda: cut_times("orders", (DAY, DAY + timedelta(days=30)), timedelta(minutes=1), None),
        lambda: cut_offsets("orders", {"orders": {"0": 0}}, {"orders": {"0": 1_000_000}}, 10),
    ],
)
def test_too_many_chunks_are_refused(cut: Any) -> None:
    with pytest.raises(UsageError) as refused:
        cut()
    assert (refused.value.error_id, refused.value.facts["at_most"]) == ("TIDE-BACK-018", MOST_CHUNKS)
