"""Stale tables after a backfill: their time ranges, their order, and the fix for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tidemill.backfill.downstream import Reader, stale_parts
from tidemill.backfill.row_origin import EventWindow, RowOrigin

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIMES = (NOON, NOON + timedelta(minutes=10))
FIVE, HOUR = timedelta(minutes=5), timedelta(hours=1)


def windows(length: timedelta, slide: timedelta | None = None, **columns: Any) -> RowOrigin:
    return RowOrigin(
        window=EventWindow(kind="tumbling", length=length, slide=slide or length, **columns), stateful=True
    )


def reader(source: dict[str, Any], table: str, origin: RowOrigin | None, at: str = "at") -> Reader:
    keys = {"source": source, "sinks": [{"delta": {"table": table}}]}
    event_time = {"column": at, "watermark": "10 minutes"}
    return Reader(declared(Path("/none"), event_time=event_time, **keys).spec, origin)


def delta(table: str, **keys: Any) -> dict[str, Any]:
    return {"delta": {"table": table, **keys}}


EVENTS = reader({"kafka": {"topic": "events"}}, "bronze/events", None)


def test_windows_of_windows_are_stale_in_order_with_the_ranges_that_their_columns_lead_to() -> None:
    readers = {
        "a_hours": reader(delta("silver/w", changes="skip"), "gold/h", windows(HOUR), at="until"),
        "events": EVENTS,
        "windows": reader(
            delta("bronze/events", changes="skip"), "silver/w", windows(FIVE, end_columns=("until",))
        ),
    }
    first, second = stale_parts(readers, "events", TIMES)
    assert (first.pipeline, first.reads, first.writes) == ("windows", ("bronze/events",), ("silver/w",))
    assert (first.sees, first.range) == ("skips", TIMES)
    assert first.fix.startswith("tidemill backfill plan windows --from 2026-03-01T12:00:00+00:00")
    # Five-minute windows end from 12:05 on, in the hour from 12:00 to 13:00.
    assert (second.pipeline, second.range) == ("a_hours", (NOON, NOON + HOUR))


def test_overlapping_windows_reach_back_before_the_range() -> None:
    sliding = reader(delta("bronze/events", changes="skip"), "silver/s", windows(HOUR, FIVE))
    (part,) = stale_parts({"events": EVENTS, "sliding": sliding}, "events", TIMES)
    assert part.range == (NOON - HOUR + FIVE, TIMES[1])


@pytest.mark.parametrize(
    ("source", "sees"),
    [
        (delta("bronze/events"), "stops"),
        (delta("bronze/events", changes="skip_deletes"), "stops"),
        (delta("bronze/events", changes="skip"), "skips"),
        (delta("bronze/events", read_changes=True), "follows"),
    ],
)
def test_a_stream_says_what_it_makes_of_replaced_rows(source: dict[str, Any], sees: str) -> None:
    (part,) = stale_parts(
        {"events": EVENTS, "next": reader(source, "silver/n", RowOrigin())}, "events", TIMES
    )
    assert part.sees == sees
    # While a stream runs, only whole windows are replaced by time.
    assert part.way == ("nothing" if sees == "follows" else "reset")


def test_code_that_nobody_has_analysed_is_left_to_the_plan_of_its_backfill() -> None:
    unknown = reader(delta("bronze/events", changes="skip"), "silver/n", None)
    (part,) = stale_parts({"events": EVENTS, "next": unknown}, "events", TIMES)
    assert (part.way, part.range) == ("backfill", TIMES)


def test_no_range_is_told_where_no_column_leads_to_one() -> None:
    other = reader(delta("bronze/events", changes="skip"), "silver/o", windows(HOUR), at="shipped_at")
    behind = reader(delta("silver/o", changes="skip"), "gold/o", windows(HOUR), at="at")
    parts = stale_parts({"events": EVENTS, "other": other, "z": behind}, "events", TIMES)
    assert [(part.pipeline, part.range) for part in parts] == [("other", None), ("z", None)]
    assert [part.range for part in stale_parts({"events": EVENTS, "other": other}, "events", None)] == [None]


def test_a_pipeline_that_joins_a_stale_table_is_stale_for_a_time_that_nobody_knows() -> None:
    sources = {
        "orders": {"kafka": {"topic": "orders"}, "payload": {"text": {}}},
        "customers": {"delta": {"table": "bronze/events"}, "as": "table"},
    }
    spec = declared(
        Path("/none"), source=None, sources=sources, transform="t:t", sinks=[{"delta": {"table": "silver/j"}}]
    ).spec
    (part,) = stale_parts({"events": EVENTS, "joined": Reader(spec, None)}, "events", TIMES)
    assert (part.sees, part.range, part.writes) == ("joins", None, ("silver/j",))


def test_what_reads_nothing_of_it_is_not_stale() -> None:
    readers = {"events": EVENTS, "other": reader(delta("bronze/else"), "silver/e", None)}
    assert stale_parts(readers, "events", TIMES) == []
