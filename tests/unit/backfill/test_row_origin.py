"""Tests of row origins: bounds of windows, stored analyses, and contradictions with a declaration."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.declared import declared
from tidemill.backfill.row_origin import (
    EventWindow,
    RowOrigin,
    SinkOrigin,
    check_declared,
    keep_origin,
    plain_origin,
    read_origin,
)
from tidemill.errors import SpecError
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

MINUTE = timedelta(minutes=1)
FIVE = EventWindow(kind="tumbling", length=5 * MINUTE, slide=5 * MINUTE, start_columns=("window_start",))

# Hypothesis wants its bounds without a zone.
moments = st.datetimes(
    min_value=datetime(1900, 1, 1),  # noqa: DTZ001
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
slides = st.sampled_from([timedelta(seconds=1), 5 * MINUTE, timedelta(hours=7), timedelta(days=7)])
shares = st.integers(min_value=0, max_value=10)


@given(
    start=moments,
    more=st.timedeltas(min_value=MINUTE, max_value=timedelta(days=90)),
    slide=slides,
    share=shares,
)
def test_the_near_range_is_the_smallest_that_windows_fill(
    start: datetime, more: timedelta, slide: timedelta, share: int
) -> None:
    window = EventWindow(kind="tumbling", length=slide, slide=slide, offset=slide * share / 11)
    near = window.starts_in(start, start + more)
    assert window.starts_in(*near) == near
    assert start - slide < near[0] <= start
    assert start + more <= near[1] < start + more + slide


LINEAGE = {name: name for name in ("kafka_topic", "kafka_partition", "kafka_offset")}


def of_table(origin: RowOrigin, sink: SinkOrigin) -> RowOrigin:
    return origin.model_copy(update={"sinks": {"silver/orders": sink}}).of_table("silver/orders")


def test_a_tables_rows_are_named_by_the_columns_that_its_sinks_transform_keeps() -> None:
    kept = {**LINEAGE, "kafka_offset": "o", "window_start": "from"}
    origin = of_table(RowOrigin(record=LINEAGE), SinkOrigin(columns=kept))
    assert origin.record == {**LINEAGE, "kafka_offset": "o"}
    windows = of_table(RowOrigin(window=FIVE, stateful=True), SinkOrigin(columns=kept))
    assert windows.window == FIVE.model_copy(update={"start_columns": ("from",)})
    assert windows.stateful


def test_a_transform_of_a_sink_that_drops_a_column_or_brings_rows_together_proves_nothing() -> None:
    dropped = of_table(RowOrigin(record=LINEAGE), SinkOrigin(columns={"kafka_topic": "kafka_topic"}))
    assert (dropped.record, dropped.stateful) == (None, False)
    assert dropped.reason.endswith("silver/orders does not keep kafka_partition, kafka_offset")
    together = of_table(RowOrigin(record=LINEAGE), SinkOrigin(reason="Window does not work row by row"))
    assert (together.record, together.stateful) == (None, True)
    assert together.reason.endswith("silver/orders: Window does not work row by row")


def test_windows_start_at_the_epoch_and_their_offset() -> None:
    day = datetime(2024, 1, 1, tzinfo=UTC)
    shifted = FIVE.model_copy(update={"offset": MINUTE})
    assert FIVE.starts_in(day + MINUTE, day + 9 * MINUTE) == (day, day + 10 * MINUTE)
    assert shifted.starts_in(day + MINUTE, day + 9 * MINUTE) == (day + MINUTE, day + 11 * MINUTE)


def test_what_was_found_is_kept_for_the_code_it_was_found_in(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    pipeline = with_transform(tmp_path, "return orders")
    keep_origin(store, pipeline, RowOrigin(stateful=True, window=FIVE))
    assert read_origin(store, pipeline) == RowOrigin(stateful=True, window=FIVE)
    assert read_origin(store, with_transform(tmp_path, "return orders.where('id > 1')")) is None


def with_transform(folder: Path, body: str, **keys: Any) -> Pipeline:
    """Declare a pipeline with a transform in the folder, which also has its state."""
    transforms = folder / "spark_apps/transforms"
    transforms.mkdir(parents=True, exist_ok=True)
    (transforms / "orders.py").write_text(f"def transform(orders):\n    {body}\n")
    return declared(folder, environment={"root": str(folder)}, transform="orders:transform", **keys)


def test_records_of_a_topic_name_themselves_and_rows_of_files_do_not(tmp_path: Path) -> None:
    names = {name: name for name in ("kafka_topic", "kafka_partition", "kafka_offset")}
    assert plain_origin(declared(tmp_path)).record == names
    files = {"files": {"path": "landing", "format": "text"}}
    assert plain_origin(declared(tmp_path, source=files)).record is None


@pytest.mark.parametrize(
    ("window", "sink", "origin", "key"),
    [
        ("10 minutes", {}, RowOrigin(window=FIVE), "event_time.window"),
        ("5 minutes", {}, RowOrigin(reason="no windows"), "event_time.window"),
        ("5 minutes", {}, RowOrigin(reason="joined", windows=(10 * MINUTE,)), "event_time.window"),
        (None, {"time": "window_end"}, RowOrigin(window=FIVE), "time of bronze/orders"),
    ],
)
def test_a_declaration_that_contradicts_the_transform_is_refused(
    tmp_path: Path, window: str | None, sink: dict[str, Any], origin: RowOrigin, key: str
) -> None:
    pipeline = in_windows(tmp_path, window, sink)
    with pytest.raises(SpecError) as refused:
        check_declared(pipeline, origin)
    assert (refused.value.error_id, refused.value.facts["key"]) == ("TIDE-SPEC-042", key)


@pytest.mark.parametrize(
    ("window", "sink"), [("5 minutes", {"time": "window_start"}), (None, {}), ("5 minutes", {})]
)
def test_a_declaration_may_repeat_the_transform_or_leave_it_to_it(
    tmp_path: Path, window: str | None, sink: dict[str, Any]
) -> None:
    check_declared(in_windows(tmp_path, window, sink), RowOrigin(window=FIVE))


def test_windows_whose_rows_are_not_proven_are_windows(tmp_path: Path) -> None:
    made = RowOrigin(stateful=True, reason="it deduplicates", windows=(5 * MINUTE,))
    check_declared(in_windows(tmp_path, "5 minutes", {}), made)


def in_windows(folder: Path, window: str | None, sink: dict[str, Any]) -> Pipeline:
    event_time = {"column": "at", "watermark": "10 minutes", **({"window": window} if window else {})}
    return declared(folder, event_time=event_time, sinks=[{"delta": {"table": "bronze/orders", **sink}}])
