"""The watermark of each stream, restored after restarts, because Spark's tracker forgets it.

Spark 4.2 computes the single watermark of a query from those of its `EventTimeWatermark` nodes
(`WatermarkTracker`), and stores only the single one in the checkpoint. When a query starts again, this module
gives the tracker the watermarks after the batch before. It follows Spark's rule, for each node, as if one row
had reached the watermark. This happens in the first batch, before Spark advances the watermark at the end of
that batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.checkpoint.retention.rule import retention_of
from tidemill.checkpoint.stream_watermarks import (
    Watermarks,
    delete_watermarks,
    read_watermarks,
    write_watermarks,
)
from tidemill.engine.plan_check.analysed import plan_of
from tidemill.engine.run_context import RunContext
from tidemill.engine.scala import items
from tidemill.engine.state_operators import running_query
from tidemill.ledger.entry import LedgerEntry
from tidemill.names import SOURCE_NAME

_NAMED_SOURCE = re.compile(r'name="(.+)"')


class StreamWatermarks:
    """The watermarks of one query.

    Args:
        spark: The session that started it.
        run: The run.
        nodes: Spark's `EventTimeWatermark` nodes, by the stream whose rows they receive.
    """

    def __init__(self, spark: SparkSession, run: RunContext, nodes: dict[str, Any]) -> None:
        self._spark: Any = spark
        self._run = run
        self._nodes = nodes
        self._restored = False

    @classmethod
    def of(cls, spark: SparkSession, run: RunContext, frame: DataFrame) -> StreamWatermarks | None:
        """Return the watermarks to restore; None if there is at most one, which Spark stores itself."""
        nodes = watermark_nodes(plan_of(frame))
        return cls(spark, run, nodes) if len(nodes) > 1 else None

    def known(self) -> Watermarks:
        """Return the watermarks before the query's first batch."""
        kept = read_watermarks(self._run.store, self._run.checkpoint)
        return {name: kept.get(name) for name in self._nodes}

    def restore(self, frame: DataFrame, entry: LedgerEntry) -> None:
        """Give Spark's tracker the watermarks after the batch before; only once for a query.

        Args:
            frame: Rows of the batch; call this method in the thread that runs it.
            entry: Entry of the batch.
        """
        if self._restored or entry.batch_id is None:
            return
        self._restored = True
        run = self._run
        before = read_watermarks(run.store, run.checkpoint, entry.batch_id)
        query = running_query(self._spark, frame)
        for name, node in self._nodes.items():
            reached = before.get(name)
            if reached is not None:
                self._advance(query, node, reached)
        delete_watermarks(run.store, run.checkpoint, entry.batch_id - self._retained)

    def keep(self, frame: DataFrame, entry: LedgerEntry) -> Watermarks:
        """Store and return the watermarks after a batch whose rows have been read.

        This call makes the tracker process the batch's event times. Spark's own call at the end of the batch
        then changes nothing.
        """
        query, run = running_query(self._spark, frame), self._run
        tracker = query.watermarkTracker()
        tracker.updateWatermark(query.lastExecution().executedPlan())
        reached = tracker.watermarkMap()
        watermarks = {name: _value(_value(reached.get(node.nodeId()))) for name, node in self._nodes.items()}
        if entry.batch_id is not None:
            write_watermarks(run.store, run.checkpoint, entry.batch_id, watermarks)
        return watermarks

    @property
    def _retained(self) -> int:
        return retention_of(self._run.pipeline.spec).batches

    def _advance(self, query: Any, node: Any, milliseconds: int) -> None:
        """Report to the tracker of a query that one row has advanced a node's watermark to a time."""
        stateful = self._spark._jvm.org.apache.spark.sql.execution.streaming.operators.stateful
        leaf = query.lastExecution().executedPlan().collectLeaves().head()
        reached = stateful.EventTimeWatermarkExec(node.nodeId(), node.eventTime(), node.delay(), leaf)
        times = reached.eventTimeStats().value()
        # Scala setters.
        getattr(times, "max_$eq")(milliseconds + reached.delayMs())
        getattr(times, "count_$eq")(1)
        query.watermarkTracker().updateWatermark(reached)


def watermark_nodes(plan: Any) -> dict[str, Any]:
    """Return the watermark nodes of an analysed plan, each by the name of its stream.

    A node of several streams, such as one that a transform puts above a union, has all their names. Further
    nodes of a stream are numbered.
    """
    found: dict[str, Any] = {}
    seen = set()
    for node in _watermarks_in(plan):
        identity = node.nodeId().toString()
        if identity in seen:
            continue
        seen.add(identity)
        name = "+".join(sorted(set(_streams_below(node))))
        again = sum(known.partition(".")[0] == name for known in found)
        found[f"{name}.{again}" if again else name] = node
    return found


def _watermarks_in(plan: Any) -> Iterator[Any]:
    if plan.nodeName() == "EventTimeWatermark":
        yield plan
    for child in items(plan.children()):
        yield from _watermarks_in(child)


def _streams_below(plan: Any) -> Iterator[str]:
    for leaf in items(plan.collectLeaves()):
        if leaf.nodeName().startswith("Streaming"):
            named = _NAMED_SOURCE.fullmatch(leaf.sourceIdentifyingName().toString())
            yield SOURCE_NAME if named is None else named[1]


def _value(option: Any) -> Any:
    """Return the value of a Scala option; None if it is empty."""
    return option.get() if option is not None and option.isDefined() else None
