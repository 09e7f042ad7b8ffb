"""Lineage events of a running driver, sent by a separate thread, so that no batch waits or fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog

from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status
from tidemill.engine.batch_writer import BatchResult
from tidemill.errors import TidemillError
from tidemill.lineage.endpoint import endpoint_of
from tidemill.spec.project import Pipeline
from tidemill.spec.secret_mask import mask_document

# Maximum time that a driver's end waits for its last events, in seconds. Together with Spark's 15 s it must
# stay below WAY_OUT (spec/environment.py).
CLOSE_SECONDS = 5.0

log = structlog.get_logger()


@dataclass(frozen=True)
class _Unsent:
    """Pending events.

    Args:
        start: Status of the driver that started.
        batch: Newest written batch; its number is None in a backfill.
        receipt: Receipt of the driver that ended.
    """

    start: Status | None = None
    batch: BatchResult | None = None
    receipt: Receipt | None = None


class LineageSender:
    """Sends the lineage events of one run.

    The content of pending events is not kept here but in the ledger. A batch only sets a flag, and the thread
    then reads what the newest batch wrote. So a slow or unavailable endpoint takes no memory. If several
    batches were written since the last event, only the newest is sent.

    Args:
        pipeline: The pipeline.
        post: Sends one event. Its failures are logged when they begin and when they end.
        every: Minimum time between two batch events.
    """

    def __init__(self, pipeline: Pipeline, post: Callable[[dict[str, Any]], None], every: timedelta) -> None:
        self._pipeline = pipeline
        self._post = post
        self._every_seconds = every.total_seconds()
        self._changed = threading.Condition()
        self._unsent = _Unsent()
        # True if there is a new event. Failed events wait for the next new one, so there is no retry loop.
        self._has_news = False
        # Earliest time of the next batch event, on the monotonic clock, in seconds.
        self._not_before = float("-inf")
        self._fails = False
        self._run_id = ""
        self._thread = threading.Thread(target=self._send_all, name="lineage", daemon=True)

    def begins(self, status: Status) -> None:
        """Send the start of a driver."""
        self._run_id = status.run_id
        self._tell(start=status)
        self._thread.start()

    def wrote(self, result: BatchResult) -> None:
        """Send a written batch, unless all outputs held it already."""
        if any(written.committed for written in result.written.values()):
            self._tell(batch=result)

    def ends(self, receipt: Receipt, wait_seconds: float = CLOSE_SECONDS) -> None:
        """Send the end of the driver; wait at most `wait_seconds` for the last events."""
        if self._thread.ident is None:
            return
        self._tell(receipt=receipt)
        self._thread.join(wait_seconds)
        if self._thread.is_alive():
            log.warning("lineage_not_sent", pipeline=self._pipeline.name, run_id=receipt.run_id)

    def _tell(self, **news: Any) -> None:
        with self._changed:
            self._unsent = replace(self._unsent, **news)
            self._has_news = True
            self._changed.notify()

    def _send_all(self) -> None:
        while True:
            unsent = self._next()
            try:
                self._send(unsent)
            except Exception as error:  # noqa: BLE001  # lineage must never stop a driver
                self._failed(error)
            else:
                self._succeeded()
            if unsent.receipt is not None:
                return

    def _next(self) -> _Unsent:
        """Wait for a new event and for the minimum time between events; the end does not wait."""
        with self._changed:
            while self._unsent.receipt is None:
                seconds = max(0.0, self._not_before - time.monotonic()) if self._has_news else None
                if seconds == 0:
                    break
                self._changed.wait(seconds)
            self._has_news = False
            return self._unsent

    def _send(self, unsent: _Unsent) -> None:
        # Imported here, because the import takes half a second, which would delay the start of the driver.
        from tidemill.lineage.run_events import RunStart, batch_event, end_event, start_event
        from tidemill.lineage.written import newest_batch

        if unsent.start is not None:
            status = unsent.start
            start = RunStart(status.run_id, status.mode, status.started_at)
            self._post(start_event(self._pipeline, start))
            self._sent(start=status)
        if unsent.batch is not None:
            self._not_before = time.monotonic() + self._every_seconds
            batch = newest_batch(self._pipeline, self._run_id, unsent.batch.batch_id)
            if batch is not None:
                self._post(batch_event(self._pipeline, batch))
            self._sent(batch=unsent.batch)
        if unsent.receipt is not None:
            self._post(end_event(self._pipeline, unsent.receipt))

    def _sent(self, **sent: Any) -> None:
        """Remove sent events, unless a newer one has replaced them."""
        with self._changed:
            gone = {name: None for name, what in sent.items() if getattr(self._unsent, name) is what}
            self._unsent = replace(self._unsent, **gone)

    def _failed(self, error: Exception) -> None:
        self._not_before = time.monotonic() + self._every_seconds
        if not self._fails:
            log.warning("lineage_unavailable", pipeline=self._pipeline.name, error=_told(error))
        self._fails = True

    def _succeeded(self) -> None:
        if self._fails:
            log.info("lineage_available", pipeline=self._pipeline.name)
        self._fails = False


def _told(error: Exception) -> Any:
    """Return the error without secrets, which the message of a library may contain."""
    ours = error.as_document() if isinstance(error, TidemillError) else None
    return mask_document(ours or f"{type(error).__name__}: {error}")


def open_lineage(pipeline: Pipeline) -> LineageSender | None:
    """Return the sender; None if the environment names no lineage service, or an unusable one."""
    try:
        endpoint = endpoint_of(pipeline.environment)
    except Exception as error:  # noqa: BLE001  # lineage must never stop a driver
        log.warning("lineage_off", pipeline=pipeline.name, error=_told(error))
        return None
    lineage = pipeline.environment.spec.lineage
    if endpoint is None or lineage is None:
        return None
    return LineageSender(pipeline, endpoint.post, lineage.every)
