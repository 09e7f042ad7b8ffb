"""What a driver says of itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import create_autospec

from pyspark.sql.streaming.listener import QueryIdleEvent

from tidemill.checkpoint.status import Status
from tidemill.engine.reporter import Reporter
from tidemill.errors import UnavailableError
from tidemill.storage.store import Store

IDLE = create_autospec(QueryIdleEvent, instance=True, spec_set=True)


def test_a_source_that_answers_again_without_news_is_no_error_any_more(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    status = Status(
        pipeline="orders", mode="stream", state="starting", run_id="r", started_at=now, updated_at=now
    )
    reporter = Reporter(Store(str(tmp_path)), f"{tmp_path}/status.json", status)
    reporter.state("waiting", UnavailableError("TIDE-SRC-001", "No Kafka broker answers."))
    assert reporter.status.error is not None

    reporter.onQueryIdle(IDLE)

    assert (reporter.status.state, reporter.status.error) == ("waiting", None)
