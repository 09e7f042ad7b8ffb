"""What a backfill would read and replace, and the ranges that cannot be processed again exactly."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.commits import commit_of
from tests.support.declared import declared
from tidemill.backfill.bounds import parse_bounds
from tidemill.backfill.plan import BackfillPlan, TablePlan, plan_backfill
from tidemill.errors import UsageError
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Pipeline

FILES = {"files": {"path": "landing/orders", "format": "json", "schema": "id long, at timestamp"}}
EVENT_TIME = {"column": "at", "watermark": "10 minutes", "window": "5 minutes"}
DAY = ("2024-01-01", "2024-01-02")
IN_DAY = "`at` >= timestamp'2024-01-01 00:00:00.000000Z' AND `at` < timestamp'2024-01-02 00:00:00.000000Z'"


def of_files(folder: Path, **keys: Any) -> Pipeline:
    return declared(folder, "orders", **{"source": FILES, "event_time": EVENT_TIME, **keys})


def windowed(folder: Path, **keys: Any) -> Pipeline:
    return of_files(folder, transform="orders:transform", **keys)


def delta(table: str = "bronze/orders", **keys: Any) -> dict[str, Any]:
    return {"delta": {"table": table, **keys}}


def refusal_of(pipeline: Pipeline, *bounds: str | None) -> UsageError:
    with pytest.raises(UsageError) as refused:
        plan_backfill(pipeline, parse_bounds(*bounds))
    assert refused.value.facts["pipeline"] == "orders"
    return refused.value


def ran_live(pipeline: Pipeline, watermark: datetime | None) -> None:
    """The stream has committed one batch to the table."""
    columns = pa.schema([("id", pa.int64())])
    log = TableLog(pipeline.layout.table("bronze/orders"))
    log.create(columns)
    commit = commit_of(0)
    entry = commit.entry.model_copy(update={"watermark": watermark})
    log.commit([], BatchCommit(commit.app_id, 0, entry), columns)


def test_a_range_of_time_selects_rows_and_replaces_the_same_ones(tmp_path: Path) -> None:
    bounds = parse_bounds(*DAY)
    assert plan_backfill(of_files(tmp_path), bounds) == BackfillPlan(
        pipeline="orders",
        backfill_id=bounds.backfill_id("orders"),
        bounds=bounds,
        start_offsets=None,
        end_offsets=None,
        at_seam=False,
        condition=IN_DAY,
        tables=(TablePlan("bronze/orders", "replace_where", IN_DAY),),
        left_out=(),
    )


def test_the_table_is_selected_by_the_column_that_the_sink_names(tmp_path: Path) -> None:
    pipeline = windowed(tmp_path, sinks=[delta(time="window_start")])
    plan = plan_backfill(pipeline, parse_bounds(*DAY))
    assert plan.condition == IN_DAY
    assert plan.tables[0].condition == IN_DAY.replace("`at`", "`window_start`")


@pytest.mark.parametrize(
    ("sink", "bounds", "action"),
    [(delta(mode="replace"), (), "replace"), (delta(mode="merge", key=["id"]), DAY, "merge")],
)
def test_a_replaced_or_merged_table_needs_no_condition(
    tmp_path: Path, sink: dict[str, Any], bounds: tuple[str, ...], action: str
) -> None:
    plan = plan_backfill(windowed(tmp_path, sinks=[sink]), parse_bounds(*bounds))
    assert plan.tables == (TablePlan("bronze/orders", action, None),)


def test_topics_and_the_console_are_left_out(tmp_path: Path) -> None:
    sinks = [delta(), {"kafka": {"topic": "alerts"}}, {"console": {}}]
    plan = plan_backfill(of_files(tmp_path, sinks=sinks), parse_bounds(*DAY))
    assert plan.left_out == ("kafka alerts", "console")


@pytest.mark.parametrize(
    ("keys", "bounds", "error_id"),
    [
        ({"source": {"rate": {}}}, (), "TIDE-BACK-002"),
        ({"source": {"rate_per_batch": {}}}, (), "TIDE-BACK-002"),
        ({"source": FILES, "sinks": [{"console": {}}]}, (), "TIDE-BACK-002"),
        ({"source": FILES}, (), "TIDE-BACK-003"),
        ({"source": FILES, "sinks": [delta(mode="replace")]}, DAY, "TIDE-BACK-003"),
        ({"source": FILES}, DAY, "TIDE-BACK-004"),
    ],
)
def test_what_cannot_be_processed_again_is_refused(
    tmp_path: Path, keys: dict[str, Any], bounds: tuple[str, ...], error_id: str
) -> None:
    error = refusal_of(declared(tmp_path, "orders", **keys), *bounds)
    assert (error.error_id, error.runbook) == (error_id, "backfill")


@pytest.mark.parametrize("keys", [{"source": FILES}, {"transform": "orders:transform"}])
def test_offsets_of_rows_that_are_not_records_are_refused(tmp_path: Path, keys: dict[str, Any]) -> None:
    offsets = ('{"orders": {"0": 5}}', '{"orders": {"0": 9}}')
    error = refusal_of(declared(tmp_path, "orders", **keys), None, None, *offsets)
    assert error.error_id == "TIDE-BACK-004"


def test_a_range_that_cuts_through_windows_is_refused_with_the_near_one(tmp_path: Path) -> None:
    error = refusal_of(windowed(tmp_path), "2024-01-01T00:01", "2024-01-01T00:09")
    assert error.error_id == "TIDE-BACK-005"
    assert error.facts["near_range"] == "2024-01-01T00:00:00+00:00 to 2024-01-01T00:10:00+00:00"


@pytest.mark.parametrize("watermark", [None, datetime(2024, 1, 1, 23, 59, tzinfo=UTC)])
def test_windows_that_the_live_stream_may_still_write_are_refused(
    tmp_path: Path, watermark: datetime | None
) -> None:
    pipeline = windowed(tmp_path)
    ran_live(pipeline, watermark)
    error = refusal_of(pipeline, *DAY)
    assert error.error_id == "TIDE-BACK-006"
    assert error.facts["closed_until"] == (None if watermark is None else watermark.isoformat())


def test_windows_that_the_live_stream_has_closed_may_be_processed_again(tmp_path: Path) -> None:
    pipeline = windowed(tmp_path)
    ran_live(pipeline, datetime(2024, 1, 2, tzinfo=UTC))
    assert plan_backfill(pipeline, parse_bounds(*DAY)).condition == IN_DAY


def test_rows_of_files_that_the_live_stream_has_read_are_refused(tmp_path: Path) -> None:
    pipeline = of_files(tmp_path)
    ran_live(pipeline, None)
    error = refusal_of(pipeline, *DAY)
    assert (error.error_id, error.facts["source"]) == ("TIDE-BACK-007", "files")


def test_a_backfill_is_no_live_stream(tmp_path: Path) -> None:
    pipeline = of_files(tmp_path)
    columns = pa.schema([("id", pa.int64())])
    log = TableLog(pipeline.layout.table("bronze/orders"))
    log.create(columns)
    entry = commit_of(0).entry.model_copy(update={"mode": "backfill"})
    log.commit([], BatchCommit("backfill", 0, entry), columns)
    assert plan_backfill(pipeline, parse_bounds(*DAY)).condition == IN_DAY


def test_planning_writes_nothing(tmp_path: Path) -> None:
    plan_backfill(of_files(tmp_path), parse_bounds(*DAY))
    assert list(tmp_path.iterdir()) == []


def test_the_plan_is_told_line_by_line(tmp_path: Path) -> None:
    plan = plan_backfill(of_files(tmp_path, sinks=[delta(), {"console": {}}]), parse_bounds(*DAY))
    assert plan.lines() == [
        f"Backfill {plan.backfill_id}",
        "  range     2024-01-01T00:00:00+00:00 to 2024-01-02T00:00:00+00:00",
        f"  rows      {IN_DAY}",
        f"  replace_where bronze/orders where {IN_DAY}",
        "  left out      console: not sent again",
    ]
