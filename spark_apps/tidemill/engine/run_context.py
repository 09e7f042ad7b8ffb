"""Facts that every part of a driver's run needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidemill.checkpoint.epochs import newest_epoch
from tidemill.checkpoint.gate import TopicFacts
from tidemill.checkpoint.reading.batches import CheckpointBatches, PlannedBatch
from tidemill.engine.drain import Drain
from tidemill.errors import FencedError
from tidemill.ledger.entry import Code, LedgerEntry, OffsetRange
from tidemill.ledger.shape import shape_of
from tidemill.names import source_name
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


@dataclass(frozen=True)
class RunContext:
    """One run of one driver.

    Args:
        pipeline: The pipeline.
        mode: Mode of the run.
        run_id: Id of the run.
        store: Store of the control files.
        drain: Set when a stop is requested.
        code: Identity of the running code, for the ledger.
        generation: Live checkpoint generation; empty for a backfill, which has no checkpoint.
        epoch: Epoch that this driver has claimed; 0 for a backfill.
        own_hold: Id of the hold that a backfill may have taken.
        written_by: Digest of the code that wrote the newest batch of a query with state; otherwise empty.
        topics: Broker facts at the start, for each Kafka stream, by its name in the ledger.
    """

    pipeline: Pipeline
    mode: Literal["stream", "incremental", "backfill"]
    run_id: str
    store: Store
    drain: Drain
    code: Code
    generation: str = ""
    epoch: int = 0
    own_hold: str = ""
    written_by: str = ""
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)

    @property
    def checkpoint(self) -> str:
        """Return Spark's checkpoint directory."""
        return self.pipeline.layout.checkpoint(self.pipeline.name, self.generation)

    @property
    def is_without_batches(self) -> bool:
        """Return True if rows are written continuously, without foreachBatch."""
        return self.pipeline.spec.run.is_without_batches(self.mode)

    def entry(self, batch_id: int) -> LedgerEntry:
        """Return the ledger entry of a batch; the caller sets the output.

        Inside foreachBatch the running batch's end offsets are already in `offsets/<batch_id>`.

        Raises:
            FencedError: TIDE-RUN-001, if a newer driver has started, which then writes the batch.
        """
        self.check_epoch()
        batches = CheckpointBatches(self.store, self.checkpoint)
        planned = batches.planned(batch_id)
        return LedgerEntry(
            pipeline=self.pipeline.name,
            output="",
            mode=self.mode,
            run_id=self.run_id,
            generation=self.generation,
            query_id=batches.query_id(),
            epoch=self.epoch,
            batch_id=batch_id,
            sources=self._sources(batches, planned),
            watermark=planned.watermark if planned else None,
            code=self.code,
            shape=shape_of(self.pipeline.spec),
        )

    def _sources(self, batches: CheckpointBatches, planned: PlannedBatch | None) -> dict[str, OffsetRange]:
        """Return the offsets that the batch read; a self-join of the stream reads it once for each side."""
        ranges = {} if planned is None else batches.ranges_of(planned)
        return {source_name(key): self._range(source_name(key), *read) for key, read in ranges.items()}

    def _range(self, name: str, start: Any, end: Any) -> OffsetRange:
        # Uses of the only stream are named `source`, `source.1`, and so on.
        topics = self.topics.get(name.partition(".")[0])
        if topics is None:
            return OffsetRange(start=start, end=end)
        return OffsetRange(start=start, end=end, topic_ids=dict(topics.ids) or None, cluster=topics.cluster)

    def check_epoch(self) -> None:
        """Check that no newer driver has started.

        Raises:
            FencedError: TIDE-RUN-001.
        """
        newest = newest_epoch(self.store, self.pipeline.layout, self.pipeline.name)
        if newest > self.epoch:
            raise FencedError(
                "TIDE-RUN-001",
                "A newer driver of this pipeline has started. This one ends, and wrote nothing since.",
                facts={"pipeline": self.pipeline.name, "epoch": self.epoch, "newest_epoch": newest},
                fix="nothing, if the newer one was meant; else see who started it: tidemill status",
                runbook="two-drivers",
            )
