"""A driver's status reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
import structlog
from pyspark.sql.streaming.listener import QueryIdleEvent, QueryProgressEvent, QueryStartedEvent
from pyspark.sql.streaming.query import StreamingQueryProgress
from structlog.testing import capture_logs

from tests.support.spark_progress import PROGRESS
from tidemill.checkpoint.status import Status
from tidemill.engine.batch import BatchResult
from tidemill.engine.log_lines import log_json_lines, run_in_log
from tidemill.engine.reporter import REFRESH_SECONDS, Reporter
from tidemill.errors import UnavailableError
from tidemill.ledger.entry import ExpectationCounts
from tidemill.storage.store import Store


def started(name: str, query_id: str) -> QueryStartedEvent:
    event = create_autospec(QueryStartedEvent, instance=True, spec_set=True)
    event.configure_mock(name=name, id=query_id)
    return event


def idle(query_id: str) -> QueryIdleEvent:
    event = create_autospec(QueryIdleEvent, instance=True, spec_set=True)
    event.configure_mock(id=query_id)
    return event


def progressed(progress: dict[str, Any]) -> QueryProgressEvent:
    spark = create_autospec(StreamingQueryProgress, instance=True, spec_set=True)
    spark.configure_mock(json=json.dumps(progress))
    event = create_autospec(QueryProgressEvent, instance=True, spec_set=True)
    event.configure_mock(progress=spark)
    return event


@pytest.fixture
def reporter(tmp_path: Path) -> Reporter:
    now = datetime.now(UTC)
    status = Status(
        pipeline="orders", mode="stream", state="starting", run_id="r", started_at=now, updated_at=now
    )
    return Reporter(Store(str(tmp_path)), f"{tmp_path}/status.json", status)


def test_a_source_that_answers_again_without_news_is_no_error_any_more(reporter: Reporter) -> None:
    reporter.onQueryStarted(started("orders", "1"))
    reporter.state("waiting", UnavailableError("TIDE-SRC-001", "No Kafka broker answers."))
    assert reporter.status.error is not None

    reporter.onQueryIdle(idle("1"))

    assert (reporter.status.state, reporter.status.error) == ("waiting", None)


def test_an_error_is_told_without_secrets(reporter: Reporter) -> None:
    reporter.state("waiting", UnavailableError("TIDE-SRC-001", "Away.", facts={"reason": "password=c4n4ry;"}))
    assert reporter.status.error is not None
    assert reporter.status.error["facts"] == {"reason": "password=***;"}


def test_an_empty_source_is_progress_and_a_source_that_is_away_is_none(reporter: Reporter) -> None:
    reporter.onQueryStarted(started("orders", "1"))
    assert (reporter.status.progressed_at, reporter.status.source_empty_at) == (None, None)
    reporter.state("waiting", UnavailableError("TIDE-SRC-001", "No Kafka broker answers."))
    assert reporter.status.progressed_at is None
    reporter.onQueryIdle(idle("1"))
    empty_at = reporter.status.source_empty_at
    assert empty_at is not None
    assert reporter.status.progressed_at == empty_at
    reporter.state("waiting", UnavailableError("TIDE-SRC-001", "No Kafka broker answers."))
    assert reporter.status.progressed_at == empty_at


def test_a_committed_batch_is_progress_that_the_next_driver_goes_on_from(reporter: Reporter) -> None:
    reporter.batch(BatchResult(0, {}, 0))
    progressed = reporter.status.progressed_at
    assert progressed == reporter.status.batch_committed_at
    now = datetime.now(UTC)
    status = Status(
        pipeline="orders", mode="stream", state="starting", run_id="s", started_at=now, updated_at=now
    )
    following = Reporter(reporter._store, reporter._path, status)
    following.goes_on_from(reporter.status)
    following.state("starting")
    assert (following.status.progressed_at, following.status.batch_committed_at) == (progressed, None)


def test_every_sign_of_life_is_a_beat_and_a_long_batch_is_heard_of_once_a_minute(reporter: Reporter) -> None:
    beats: list[int] = []
    reporter._sign_of_life = lambda: beats.append(1)
    reporter.onQueryStarted(started("orders", "1"))
    reporter.works()
    reporter.state("running")
    assert len(beats) == 3
    written = reporter.status.updated_at
    reporter.works()
    assert reporter.status.updated_at == written
    reporter._written_at -= REFRESH_SECONDS
    reporter.works()
    assert reporter.status.updated_at > written


def test_what_another_query_of_the_session_does_is_not_taken_over(reporter: Reporter) -> None:
    reporter.onQueryStarted(started("orders", "1"))
    reporter.onQueryStarted(started("payments", "2"))
    reporter.onQueryIdle(idle("2"))
    assert reporter.status.state == "starting"
    reporter.onQueryIdle(idle("1"))
    assert reporter.status.state == "waiting"


def test_what_is_the_pipelines_own_goes_on_to_the_next_driver(reporter: Reporter) -> None:
    reporter.onQueryStarted(started("orders", "1"))
    reporter.source_keeps(timedelta(days=2))
    reporter.onQueryIdle(idle("1"))
    before = reporter.status
    assert (before.caught_up_at, before.source_retention_seconds) == (before.source_empty_at, 172_800)
    assert not before.source_keeps_for_ever
    following = Reporter(reporter._store, reporter._path, before.model_copy(update={"caught_up_at": None}))
    following.goes_on_from(before)
    assert following.status.caught_up_at == before.caught_up_at
    # The topic now keeps its records for ever. This query is not a sign of life, because a hung driver asks
    # as well.
    following.source_keeps(None)
    assert (following.status.source_retention_seconds, following.status.source_keeps_for_ever) == (None, True)
    third = Reporter(
        reporter._store, reporter._path, before.model_copy(update={"source_keeps_for_ever": False})
    )
    third.goes_on_from(following.status)
    assert third.status.source_keeps_for_ever
    assert following.status.updated_at == before.updated_at


def test_a_batch_that_left_nothing_unread_has_caught_up_and_one_behind_has_not(reporter: Reporter) -> None:
    reporter._take_over(batch(0, "2026-11-22T12:00:00.000Z", read=5))
    assert reporter.status.caught_up_at == datetime(2026, 11, 22, 12, tzinfo=UTC)
    reporter._take_over(batch(1, "2026-11-22T13:00:00.000Z", read=3))
    assert (reporter.status.caught_up_at, reporter.status.lag) == (datetime(2026, 11, 22, 12, tzinfo=UTC), 2)


def test_violations_and_batches_count_since_the_driver_started(reporter: Reporter) -> None:
    counts = ExpectationCounts(checked=9, violations={"plausible": 2})
    for number in range(3):
        reporter.batch(BatchResult(number, {}, 0, expectations={"silver/orders": counts}))
    assert reporter.status.batches == 3
    assert reporter.status.expectation_violations == {"silver/orders": {"plausible": 6}}


def batch(number: int, at: str, read: int) -> dict[str, Any]:
    source = {"endOffset": {"orders": {"0": read}}, "latestOffset": {"orders": {"0": 5}}}
    return {"batchId": number, "timestamp": at, "sources": [source]}


# Result of a batch that wrote rows, dropped a late row and quarantined two.
BATCH = BatchResult(7, {}, 2, late=1)


def test_a_batch_is_one_line_with_what_it_is_of_and_no_more(reporter: Reporter) -> None:
    reporter.state("running", generation="g0002", epoch=4)
    with capture_logs() as lines:
        reporter.batch(BATCH)
        reporter.onQueryProgress(progressed({**PROGRESS, "name": "orders", "numInputRows": 50}))
    assert lines == [
        {
            "event": "batch",
            "log_level": "info",
            "pipeline": "orders",
            "batch_id": 7,
            "generation": "g0002",
            "epoch": 4,
            "rows": 50,
            "milliseconds": 1000,
            "lag": 110,
            "late_rows": 1,
        }
    ]


def test_the_line_of_a_batch_says_in_a_drivers_log_of_which_run_it_is(
    reporter: Reporter, tmp_path: Path
) -> None:
    asked = {"TIDEMILL_DAG_RUN": "tidemill_streams manual-1"}
    with (tmp_path / "log").open("wb") as file:
        log_json_lines(file.fileno(), run_in_log("orders", "r", asked))
        try:
            reporter.onQueryProgress(progressed({**PROGRESS, "name": "orders"}))
        finally:
            structlog.reset_defaults()
    (line,) = [json.loads(text) for text in (tmp_path / "log").read_text().splitlines()]
    assert line.keys() == {
        *("pipeline", "run_id", "dag_run", "batch_id", "generation", "epoch"),
        *("rows", "milliseconds", "lag", "late_rows", "event", "level", "timestamp"),
    }
    assert (line["run_id"], line["dag_run"]) == ("r", "tidemill_streams manual-1")


def test_a_watermark_beyond_the_year_9999_stops_no_report(reporter: Reporter) -> None:
    progress = {**PROGRESS, "name": "orders", "eventTime": {"watermark": "+12000-01-01T00:00:00.000Z"}}
    reporter.onQueryProgress(progressed(progress))
    assert reporter.last_progress == PROGRESS["batchId"]
    assert reporter.status.watermark == datetime.max.replace(tzinfo=UTC)
