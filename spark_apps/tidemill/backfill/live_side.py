"""Position of the live stream, so that a backfill ends exactly where the stream continues.

The newest ledger entry is not enough. After a RESTORE by hand the stream writes that batch again, and one of
several tables may be a batch behind. So the position is the newest finished batch in the live generation's
checkpoint, which every table has.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from tidemill.backfill.refusal import refused
from tidemill.checkpoint.current import Current, read_current
from tidemill.checkpoint.gate import check_agreement, gather_settled
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.ledger.entry import Positions
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


class LiveSide(BaseModel):
    """The live stream, between two batches.

    Args:
        generation: Its checkpoint.
        batch_id: Newest finished batch, which every table has; None before the first.
        offsets: First offset of each partition that is in no table yet; None for sources other than Kafka.
        closed_until: Event time up to which every table has all windows; None if no window is closed.
    """

    model_config = ConfigDict(frozen=True)

    generation: str
    batch_id: int | None = None
    offsets: Positions | None = None
    closed_until: datetime | None = None


def read_live_side(store: Store, pipeline: Pipeline) -> LiveSide | None:
    """Return the position of the live stream; None if it has never begun.

    Rows of an unfinished batch are beyond its offsets, and in windows that are not closed.

    Raises:
        GateRefusedError: The gate's finding, if checkpoint and tables do not belong together, because it is
            then unknown which rows the stream will write again.
        UsageError: TIDE-BACK-006, if it has begun and its start is not known yet.
    """
    current = read_current(store, pipeline.layout, pipeline.name)
    if current is None:
        return None
    batches = CheckpointBatches(store, pipeline.layout.checkpoint(pipeline.name, current.generation))
    finished = batches.last_committed()
    planned = None if finished is None else batches.offsets(finished)
    if planned is None:
        return _before_its_first_batch(pipeline, current, batches)
    check_agreement(gather_settled(store, pipeline, current.generation))
    ends = [positions for end in planned.ends.values() if (positions := _positions(end)) is not None]
    return LiveSide(
        generation=current.generation,
        batch_id=finished,
        offsets=_lowest(ends),
        closed_until=planned.watermark,
    )


def _before_its_first_batch(
    pipeline: Pipeline, current: Current, batches: CheckpointBatches
) -> LiveSide | None:
    began = _positions(batches.initial_offset())
    if began is None and current.base is None and batches.last_planned() is None:
        return None
    if pipeline.spec.source.is_kafka and began is None:
        raise refused(
            "TIDE-BACK-006",
            pipeline.name,
            "The live stream has begun, and has not said yet where.",
            {"generation": current.generation},
            "wait for its first batch: tidemill status " + pipeline.name,
        )
    return LiveSide(generation=current.generation, offsets=began)


def _positions(document: Any) -> Positions | None:
    """Return an offset document of Kafka; None for those of other sources."""
    if not isinstance(document, dict) or not all(isinstance(value, dict) for value in document.values()):
        return None
    return document


def _lowest(ends: list[Positions]) -> Positions | None:
    """Return the offsets that every use of the source has read; Spark reads for each use separately."""
    if not ends:
        return None
    first, *others = ends
    return {
        topic: {
            partition: min([offset, *(other.get(topic, {}).get(partition, 0) for other in others)])
            for partition, offset in partitions.items()
        }
        for topic, partitions in first.items()
    }
