"""A driver's reports of its query, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, create_autospec

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from tests.support.declared import declared
from tidemill.checkpoint.query_report import KEPT_PROGRESSES, QueryReport
from tidemill.engine.batch import BatchResult
from tidemill.engine.query_reporter import (
    LOOK_SECONDS,
    REFRESH_SECONDS,
    Addresses,
    QueryReporter,
)
from tidemill.engine.sink_times import SinkTimes
from tidemill.sinks.batch_commit import Written


class Kept:
    """The stored reports, and a clock that the test turns."""

    def __init__(self) -> None:
        self.reports: list[QueryReport] = []
        self.now = 0.0


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def reporter(kept: Kept) -> QueryReporter:
    return QueryReporter(kept.reports.append, lambda: kept.now)


def query(run: str = "q", plan: str = "No physical plan. Waiting for data.") -> MagicMock:
    found: MagicMock = create_autospec(StreamingQuery, instance=True)
    status = {"message": "Waiting for sig=c4n4ry", "isDataAvailable": True, "isTriggerActive": False}
    found.configure_mock(id="i", runId=run, name="orders", status=status)
    found._jsq = MagicMock()
    found._jsq.explainInternal.side_effect = [plan]
    return found


def begin(reporter: QueryReporter, folder: Path, found: MagicMock) -> None:
    reporter.begins(found, "orders", declared(folder).spec, "run-1")


def progress(batch: int, run: str = "q") -> dict[str, Any]:
    source = {
        "description": "KafkaV2[Subscribe[orders]] password=c4n4ry",
        "numInputRows": 4,
        "endOffset": {"orders": {"0": 9, "1": 9}},
        "latestOffset": {"orders": {"0": 9, "1": 14}},
    }
    states = [{"numRowsTotal": 3, "customMetrics": {"rocksdbBytes": 1}}]
    return {"runId": run, "batchId": batch, "sources": [source], "stateOperators": states}


def test_a_report_is_stored_at_the_beginning_when_it_changes_and_at_the_end(
    reporter: QueryReporter, kept: Kept, tmp_path: Path
) -> None:
    reporter.addresses = Addresses("http://h", "http://ui")
    running = query()
    reporter.look(running)
    assert kept.reports == []
    begin(reporter, tmp_path, running)
    (first,) = kept.reports
    assert (first.id, first.query_run_id, first.run_id, first.active) == ("i", "q", "run-1", True)
    assert (first.http, first.spark_ui) == ("http://h", "http://ui")
    reporter.look(running)
    assert len(kept.reports) == 1
    for _ in range(2):
        kept.now += LOOK_SECONDS
        reporter.look(running)
    assert len(kept.reports) == 2
    assert (kept.reports[-1].message, kept.reports[-1].is_data_available) == ("Waiting for sig=***", True)
    # A driver that hangs may replace it.
    kept.now += REFRESH_SECONDS
    reporter.look(running)
    assert len(kept.reports) == 3
    reporter.ends()
    reporter.ends()
    assert [report.active for report in kept.reports] == [True, True, True, False]


def test_of_a_query_that_has_failed_the_error_is_not_kept(
    reporter: QueryReporter, kept: Kept, tmp_path: Path
) -> None:
    failed = query()
    begin(reporter, tmp_path, failed)
    failed.status["message"] = "Terminated with exception: [CAST_INVALID_INPUT] The value 'of a record' …"
    kept.now += LOOK_SECONDS
    reporter.look(failed)
    assert kept.reports[-1].message == "Terminated with exception"


def test_the_newest_batches_are_kept_without_secrets_and_without_what_is_long(
    reporter: QueryReporter, kept: Kept, tmp_path: Path
) -> None:
    begin(reporter, tmp_path, query())
    for batch in range(KEPT_PROGRESSES + 2):
        reporter.progressed(progress(batch))
    reporter.progressed(progress(99, run="of a query before"))
    reporter.ends()
    report = kept.reports[-1]
    assert [told["batchId"] for told in report.recent_progress] == list(range(2, KEPT_PROGRESSES + 2))
    assert report.recent_progress[-1]["stateOperators"] == [{"numRowsTotal": 3}]
    assert "endOffset" not in report.recent_progress[-1]["sources"][0]
    assert report.recent_progress[-1]["sources"][0]["partitionLag"] == {"orders-1": 5, "orders-0": 0}
    assert report.sources[0].end_offset == {"orders": {"0": 9, "1": 9}}
    assert report.last_progress is not None
    assert "customMetrics" in report.last_progress["stateOperators"][0]
    assert [(source.name, source.rows) for source in report.sources] == [("source", 4)]
    assert "c4n4ry" not in report.model_dump_json()


def test_of_several_streams_spark_does_not_say_which_is_which(
    reporter: QueryReporter, kept: Kept, tmp_path: Path
) -> None:
    streams = {name: {"rate": {}} for name in ("left", "right")}
    spec = declared(tmp_path, source=None, sources=streams, transform="both:transform").spec
    reporter.begins(query(), "orders", spec, "run-1")
    reporter.progressed(progress(0))
    reporter.ends()
    (source,) = kept.reports[-1].sources
    assert (source.name, source.description) == ("", "KafkaV2[Subscribe[orders]] password=***")


def test_the_plan_is_asked_for_once_there_is_one(reporter: QueryReporter, kept: Kept, tmp_path: Path) -> None:
    waiting = query()
    begin(reporter, tmp_path, waiting)
    kept.now += LOOK_SECONDS
    reporter.look(waiting)
    waiting._jsq.explainInternal.assert_not_called()
    reporter.progressed(progress(0))
    for plan, seen in (("No physical plan. Waiting", ""), ("== Physical Plan == token=c4n4ry", "***")):
        waiting._jsq.explainInternal.side_effect = [plan]
        kept.now += LOOK_SECONDS
        reporter.look(waiting)
        assert kept.reports[-1].explain.endswith(seen)
        assert "c4n4ry" not in kept.reports[-1].explain
    kept.now += LOOK_SECONDS
    # It would be refused by the mock.
    reporter.look(waiting)


def test_outputs_are_counted_over_the_queries_of_a_driver_and_once_each(
    reporter: QueryReporter, kept: Kept, tmp_path: Path
) -> None:
    # Spark may write a batch before `start` returns.
    reporter.wrote(BatchResult(0, {"bronze/orders": Written(True, 3, 5), "console": Written(True)}, 0))
    begin(reporter, tmp_path, query())
    reporter.wrote(BatchResult(1, {"bronze/orders": Written(False), "console": Written(True)}, 0))
    begin(reporter, tmp_path, query(run="again"))
    table, screen = kept.reports[-1].sinks
    assert (table.batch_id, table.committed, table.rows, table.total_rows, table.version) == (
        1,
        False,
        None,
        3,
        5,
    )
    assert (screen.name, screen.rows, screen.total_rows) == ("console", None, 0)
    assert kept.reports[-1].sink_times == ()


def test_the_time_at_each_sink_is_kept_of_as_many_batches_as_there_is_progress_of(
    reporter: QueryReporter, kept: Kept, tmp_path: Path
) -> None:
    begin(reporter, tmp_path, query())
    for batch in range(KEPT_PROGRESSES + 2):
        ticks = iter([10.0, 10.25, 20.0, 20.5, 30.0, 30.001])
        times = SinkTimes(lambda ticks=ticks: next(ticks))
        times.reader = "bronze/orders"
        # Time the preparation and the commit of each sink.
        for output in ("bronze/orders", "console", "bronze/orders"):
            with times.at(output):
                pass
        reporter.wrote(BatchResult(batch, {"bronze/orders": Written(True)}, 0, times=times))
    reporter.ends()
    newest = kept.reports[-1].sink_times
    assert [told.batch_id for told in newest] == list(range(2, KEPT_PROGRESSES + 2))
    assert (newest[-1].milliseconds, newest[-1].reader) == (
        {"bronze/orders": 251, "console": 500},
        "bronze/orders",
    )


def test_a_store_that_refuses_stops_nothing(tmp_path: Path) -> None:
    def refuse(_: QueryReport) -> None:
        raise OSError("the disk is full")

    reporter = QueryReporter(refuse)
    begin(reporter, tmp_path, query())
    reporter.ends()
    assert reporter.report is not None
    assert not reporter.report.active
