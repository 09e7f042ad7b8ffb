"""The lines with which a run ends."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.small_project import SmallProject
from tidemill.checkpoint.status import Status
from tidemill.control.ask.bounded_run import TableResult
from tidemill.control.ask.run_summary import TableNow, aside_line, output_lines, table_lines

NOW = datetime(2026, 1, 1, tzinfo=UTC)

OUTPUTS = """
description: Orders in many places.
owner: tests
source: {rate: {}}
sinks:
  - delta: {table: silver/orders}
  - kafka: {topic: orders}
  - files: {path: exports/orders, format: json}
  - foreach: {writer: "out:Writer"}
  - console: {}
run: {mode: incremental}
"""


def result(table: str = "silver/orders", rows: int = 21, **aside: int) -> TableResult:
    return TableResult(table, 3, rows, [1, 2, 3], {}, aside)


def status(**counts: object) -> Status:
    known = {"pipeline": "orders", "mode": "incremental", "state": "stopped", "run_id": "r"}
    return Status.model_validate({**known, "started_at": NOW, "updated_at": NOW, **counts})


def test_a_merge_is_told_by_the_rows_in_the_table() -> None:
    assert table_lines([TableNow("silver/orders", 7, 3)], [result()]) == [
        "silver/orders: 7 rows in the table, 21 rows written by this run, version 3"
    ]


def test_a_table_whose_files_have_no_statistics_is_told_without_its_rows() -> None:
    now = [TableNow("silver/orders", None, 3), TableNow("silver/new", None, None)]
    assert table_lines(now, [result(rows=1)]) == [
        "silver/orders: 1 row written by this run, version 3",
        "silver/new: no table yet",
    ]


def test_each_output_that_counts_its_rows_has_a_line(project: SmallProject) -> None:
    transforms = project.folder / "spark_apps/transforms"
    transforms.mkdir(parents=True)
    (transforms / "out.py").write_text("class Writer:\n    def process(self, row): ...\n")
    spec = project.environment.project.load_pipeline(project.declare("outputs", OUTPUTS))
    counted = {"silver/orders": 5, "kafka:orders": 4, "foreach:out:Writer": 1}
    assert output_lines(spec, status(rows_by_output=counted)) == [
        "kafka:orders: 4 rows written by this run",
        "files:exports/orders: 0 rows written by this run",
        "foreach:out:Writer: 1 row written by this run",
    ]
    assert output_lines(spec, None) == []


def test_rows_that_are_in_no_output_are_counted_once_for_all_tables() -> None:
    tables = [result(quarantined=2, late=1, dropped=3), result("gold/orders", quarantined=2, dropped=4)]
    assert aside_line(tables, None) == "2 quarantined, 1 late, 0 without event time, 7 dropped"
    counted = status(quarantined_rows=5, no_event_time_rows=6)
    assert aside_line(tables, counted) == "5 quarantined, 1 late, 6 without event time, 7 dropped"
    assert aside_line([], None) == "0 quarantined, 0 late, 0 without event time, 0 dropped"
