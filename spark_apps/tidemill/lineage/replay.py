"""The events of a time range, created again from storage."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidemill.checkpoint.receipts import Receipt, receipts_since
from tidemill.checkpoint.status import Status, read_status
from tidemill.lineage.run_events import Document, RunStart, batch_event, end_event, start_event
from tidemill.lineage.written import batches_since
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def events_since(store: Store, pipeline: Pipeline, since: datetime) -> list[Document]:
    """Return the events of all commits and ended runs since a time, oldest first.

    A killed driver left no receipt, so its batches have events, but its end has none.

    Raises:
        DataError: TIDE-LEDG-001, if files of a table's log are missing or damaged.
    """
    receipts = receipts_since(store, pipeline.layout, pipeline.name, since)
    starts = dict.fromkeys(_starts(receipts, read_status(store, pipeline.layout, pipeline.name), since))
    timed = [
        *((start.started_at, start_event(pipeline, start)) for start in starts),
        *((batch.committed_at, batch_event(pipeline, batch)) for batch in batches_since(pipeline, since)),
        *((receipt.stopped_at, end_event(pipeline, receipt)) for receipt in receipts),
    ]
    return [event for _, event in sorted(timed, key=lambda pair: pair[0])]


def _starts(receipts: list[Receipt], status: Status | None, since: datetime) -> Iterator[RunStart]:
    """Yield the starts of the ended runs and of the running one."""
    for receipt in receipts:
        if receipt.started_at is not None:
            yield RunStart(receipt.run_id, receipt.mode, receipt.started_at)
    if status is not None and status.updated_at >= since:
        yield RunStart(status.run_id, status.mode, status.started_at)
