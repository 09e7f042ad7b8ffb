"""Report to the next driver how the last driver of a pipeline ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status, read_status
from tidemill.names import Layout
from tidemill.storage.store import Store

# Number of receipts that are searched for one of a live run. A backfill that runs next to a stream adds a
# handful in between.
SEARCHED_RECEIPTS = 50


@dataclass(frozen=True)
class LastEnding:
    """The end of the last stream or incremental run.

    Args:
        result: `killed` means that the driver left no receipt and no longer runs.
        run_id: Run of the driver.
        at: Time when it ended, or its last heartbeat.
        batch_id: Newest batch that its checkpoint had committed; for a killed driver, the newest batch that
            it had written.
        unfinished_batch: Batch that was planned and not committed; the next start runs it (again).
        error: Id of the error that it ended with.
    """

    result: Literal["clean", "forced", "failed", "killed"]
    run_id: str
    at: datetime
    batch_id: int | None = None
    unfinished_batch: int | None = None
    error: str | None = None

    @property
    def is_clean(self) -> bool:
        """Return True if every batch that began to write was finished."""
        return self.result == "clean"

    def document(self) -> dict[str, Any]:
        """Return plain data for the log."""
        found = {"result": self.result, "run_id": self.run_id, "at": self.at.isoformat()}
        others = {
            "batch_id": self.batch_id,
            "unfinished_batch": self.unfinished_batch,
            "error": self.error,
        }
        return {**found, **{name: value for name, value in others.items() if value is not None}}


def read_last_ending(store: Store, layout: Layout, pipeline: str) -> LastEnding | None:
    """Return how the last driver ended; None if there was none. Call it only while no driver runs."""
    return conclude(_newest_live_receipt(store, layout, pipeline), read_status(store, layout, pipeline))


def conclude(receipt: Receipt | None, status: Status | None) -> LastEnding | None:
    """Combine receipt and status; a status without a receipt of its run means that the driver was killed."""
    ended = status is None or status.state in ("stopped", "failed")
    if status is not None and not ended and (receipt is None or receipt.run_id != status.run_id):
        return LastEnding("killed", status.run_id, status.updated_at, status.batch_id)
    if receipt is None:
        return None
    return LastEnding(
        receipt.result,
        receipt.run_id,
        receipt.stopped_at,
        receipt.batch_id,
        receipt.unfinished_batch,
        (receipt.error or {}).get("id"),
    )


def _newest_live_receipt(store: Store, layout: Layout, pipeline: str) -> Receipt | None:
    folder = layout.receipts(pipeline)
    for name in reversed(store.list_names(folder)[-SEARCHED_RECEIPTS:]):
        document = store.read_json(f"{folder}/{name}")
        receipt = None if document is None else Receipt.model_validate(document)
        if receipt is not None and receipt.mode != "backfill":
            return receipt
    return None
