"""The receipt of this driver: how it ended, and the position of the checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from tidemill.checkpoint.reading.batches import CheckpointBatches, PlannedBatch
from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status
from tidemill.errors import FencedError, TidemillError
from tidemill.names import Layout, source_name
from tidemill.storage.store import Store


@dataclass(frozen=True)
class _Position:
    """Position of a checkpoint; all None if it has no batch or cannot be read."""

    committed: int | None = None
    unfinished: int | None = None
    offsets: dict[str, Any] | None = None


def make_receipt(
    store: Store,
    layout: Layout,
    status: Status,
    ending: Literal["finished", "drained", "forced"],
    failure: TidemillError | None,
) -> Receipt:
    """Return the receipt for the next driver; a fenced driver does not report the checkpoint's position."""
    position = _Position()
    if status.generation is not None and not isinstance(failure, FencedError):
        position = _position(CheckpointBatches(store, layout.checkpoint(status.pipeline, status.generation)))
    return Receipt(
        pipeline=status.pipeline,
        run_id=status.run_id,
        mode=status.mode,
        result="failed" if failure else "forced" if ending == "forced" else "clean",
        exit_code=0 if failure is None else failure.exit_code,
        started_at=status.started_at,
        stopped_at=datetime.now(UTC),
        generation=status.generation,
        epoch=status.epoch,
        batch_id=status.batch_id if position.committed is None else position.committed,
        unfinished_batch=position.unfinished,
        offsets=position.offsets,
        watermark=status.watermark,
        error=None if failure is None else failure.as_document(),
        stopped_early=failure is None and ending == "drained" and status.mode != "stream",
    )


def _position(batches: CheckpointBatches) -> _Position:
    try:
        committed, planned = batches.last_committed(), batches.last_planned()
        newest = None if committed is None else batches.planned(committed)
    except Exception:  # noqa: BLE001  # a torn file or storage that is unavailable must not hide how the driver ended
        return _Position()
    unfinished = planned if planned is not None and planned != committed else None
    return _Position(committed, unfinished, _ends(newest) if newest else None)


def _ends(batch: PlannedBatch) -> dict[str, Any]:
    return {source_name(key): end for key, end in batch.ends.items()}
