"""The watermark of each stream, carried over restarts: where Spark's tracker would forget it.

Spark 4.2 computes the one watermark of a query from those of its `EventTimeWatermark` nodes
(`WatermarkTracker`), and keeps only the one in the checkpoint. Here the tracker of a query that starts again
is given what it knew after the batch before, by Spark's own rule: for each node, as if one row had reached
it. It happens in the first batch, before Spark moves the watermark at that batch's end.
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
        run: Whose query.
        nodes: Spark's `EventTimeWatermark` nodes, by the stream whose rows they get.
    """

    def __init__(self, spark: SparkSession, run: RunContext, nodes: dict[str, Any]) -> None:
        self._spark: Any = spark
        self._run = run
        self._nodes = nodes
        self._restored = False

    @classmethod
    def of(cls, spark: SparkSession, run: RunContext, frame: DataFrame) -> StreamWatermarks | None:
        """Return what carries the watermarks; None if there is at most one, which Spark keeps itself."""
        nodes = watermark_nodes(plan_of(frame))
        return cls(spark, run, nodes) if len(nodes) > 1 else None

    def known(self) -> Watermarks:
        """Return the watermarks before the query's first batch."""
        kept = read_watermarks(self._run.store, self._run.checkpoint)
        return {name: kept.get(name) for name in self._nodes}

    def restore(self, frame: DataFrame, entry: LedgerEntry) -> None:
        """Give Spark's tracker the watermarks that it had after the batch before; only once for a query.

        Args:
            frame: Of the batch; called in the thread that runs it.
            entry: Of the batch.
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
        """Keep the watermarks after a batch whose rows have been read, and return them.

        The tracker takes the batch's event times into account now. Spark does the same when the batch ends,
        which then changes nothing.
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
        """Report to the tracker of a query that one row has brought a node's watermark to a time."""
        stateful = self._spark._jvm.org.apache.spark.sql.execution.streaming.operators.stateful
        leaf = query.lastExecution().executedPlan().collectLeaves().head()
        reached = stateful.EventTimeWatermarkExec(node.nodeId(), node.eventTime(), node.delay(), leaf)
        times = reached.eventTimeStats().value()
        # Setters of Scala's.
        getattr(times, "max_$eq")(milliseconds + reached.delayMs())
        getattr(times, "count_$eq")(1)
        query.watermarkTracker().updateWatermark(reached)


def watermark_nodes(plan: Any) -> dict[str, Any]:
    """Return the watermark nodes of an analysed plan, Spark's object, each by the stream that it is of.

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
    """The value of one of Scala's options; None if it is empty."""
    return option.get() if option is not None and option.isDefined() else None
