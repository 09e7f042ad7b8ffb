"""What a driver says of itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import create_autospec

import pytest
from pyspark.sql.streaming.listener import QueryIdleEvent, QueryStartedEvent

from tidemill.checkpoint.status import Status
from tidemill.engine.reporter import Reporter
from tidemill.errors import UnavailableError
from tidemill.storage.store import Store


def started(name: str, query_id: str) -> QueryStartedEvent:
    event = create_autospec(QueryStartedEvent, instance=True, spec_set=True)
    event.configure_mock(name=name, id=query_id)
    return event


def idle(query_id: str) -> QueryIdleEvent:
    event = create_autospec(QueryIdleEvent, instance=True, spec_set=True)
    event.configure_mock(id=query_id)
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


def test_what_another_query_of_the_session_does_is_not_taken_over(reporter: Reporter) -> None:
    reporter.onQueryStarted(started("orders", "1"))
    reporter.onQueryStarted(started("payments", "2"))
    reporter.onQueryIdle(idle("2"))
    assert reporter.status.state == "starting"
    reporter.onQueryIdle(idle("1"))
    assert reporter.status.state == "waiting"
