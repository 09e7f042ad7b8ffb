"""Lineage events of a running driver: sent by a thread of their own, so that no batch waits or fails."""

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

# Longest that a driver's end waits for its last events, in seconds; with Spark's 15 s it must stay below
# WAY_OUT (spec/environment.py).
CLOSE_SECONDS = 5.0

log = structlog.get_logger()


@dataclass(frozen=True)
class _Unsent:
    """What is to be sent.

    Args:
        start: Of the driver that started.
        batch: The newest one that was written; its number is None in a backfill.
        receipt: Of the driver that ended.
    """

    start: Status | None = None
    batch: BatchResult | None = None
    receipt: Receipt | None = None


class LineageSender:
    """Tells a lineage service of one run.

    What waits to be sent is not kept here but in the ledger: a batch only raises a flag, and the thread then
    reads what the newest one wrote. So an endpoint that is slow or down takes no memory, and of the batches
    that were written meanwhile the newest one is told.

    Args:
        pipeline: What runs.
        post: Sends one event; that it raises is logged when it begins and when it ends.
        every: Shortest time between two events of batches.
    """

    def __init__(self, pipeline: Pipeline, post: Callable[[dict[str, Any]], None], every: timedelta) -> None:
        self._pipeline = pipeline
        self._post = post
        self._every_seconds = every.total_seconds()
        self._changed = threading.Condition()
        self._unsent = _Unsent()
        # Whether something new is to be sent: what failed waits for it, so that nothing is tried in a circle.
        self._has_news = False
        # On the monotonic clock, in seconds.
        self._not_before = float("-inf")
        self._fails = False
        self._run_id = ""
        self._thread = threading.Thread(target=self._send_all, name="lineage", daemon=True)

    def begins(self, status: Status) -> None:
        """A driver has started."""
        self._run_id = status.run_id
        self._tell(start=status)
        self._thread.start()

    def wrote(self, result: BatchResult) -> None:
        """A batch was written; not one that all outputs held already."""
        if any(written.committed for written in result.written.values()):
            self._tell(batch=result)

    def ends(self, receipt: Receipt, wait_seconds: float = CLOSE_SECONDS) -> None:
        """The driver has ended; its last events are waited for, but not for long."""
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
        """Wait until there is something new, and it is time; the end does not wait."""
        with self._changed:
            while self._unsent.receipt is None:
                seconds = max(0.0, self._not_before - time.monotonic()) if self._has_news else None
                if seconds == 0:
                    break
                self._changed.wait(seconds)
            self._has_news = False
            return self._unsent

    def _send(self, unsent: _Unsent) -> None:
        # Half a second to load: here it delays nobody.
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
        """Forget what was sent, unless there is something newer in its place."""
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
    """What a library says may hold more than it should."""
    ours = error.as_document() if isinstance(error, TidemillError) else None
    return mask_document(ours or f"{type(error).__name__}: {error}")


def open_lineage(pipeline: Pipeline) -> LineageSender | None:
    """What tells of a run; None if the environment names no service, or one that cannot be used."""
    try:
        endpoint = endpoint_of(pipeline.environment)
    except Exception as error:  # noqa: BLE001  # lineage must never stop a driver
        log.warning("lineage_off", pipeline=pipeline.name, error=_told(error))
        return None
    lineage = pipeline.environment.spec.lineage
    if endpoint is None or lineage is None:
        return None
    return LineageSender(pipeline, endpoint.post, lineage.every)
