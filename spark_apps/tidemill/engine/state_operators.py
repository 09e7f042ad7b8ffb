"""The stateful operators of the running batch, and the rows that they dropped behind the watermark.

Spark reports these numbers after a batch, long after its ledger entry is committed. The running plan has them
as soon as its rows have been read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.engine.scala import items

# Name of a metric that only stateful operators have (StateStoreWriter of Spark 4.2).
_DROPPED = "numRowsDroppedByWatermark"

# Local property of the thread that runs a batch: the id of its query.
_QUERY_ID = "sql.streaming.queryId"


class StateOperators:
    """Finds the stateful operators in the plan of the running batch.

    Args:
        spark: The session that started the query.
        none: True if the query is known to have none. A search takes some calls into the JVM for each node.
    """

    def __init__(self, spark: SparkSession, *, none: bool = False) -> None:
        self._spark: Any = spark
        self._none = none

    def of(self, frame: DataFrame) -> list[Any]:
        """Return the metric of each stateful operator in a batch's plan; empty if it has none."""
        if self._none:
            return []
        return list(_metrics(running_execution(self._spark, frame).executedPlan()))

    def share_tasks(self, frame: DataFrame) -> bool:
        """Return True if a union combines several operators' partitions, which one task may then compute."""
        return _unites_state(running_execution(self._spark, frame).executedPlan())


def running_query(spark: Any, frame: DataFrame) -> Any:
    """Return Spark's `MicroBatchExecution` that runs the batch of a foreachBatch frame."""
    query_id = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    return spark._jsparkSession.streams().get(query_id).streamingQuery()


def running_execution(spark: Any, frame: DataFrame) -> Any:
    """Return Spark's execution of the batch of a foreachBatch frame, with its plans."""
    return running_query(spark, frame).lastExecution()


def late_rows(metrics: list[Any]) -> int:
    """Return the number of rows dropped so far in this batch; final once every row was read."""
    return sum(metric.value() for metric in metrics)


def _metrics(plan: Any) -> Iterator[Any]:
    metric = plan.metrics().get(_DROPPED)
    if metric.isDefined():
        yield metric.get()
    for child in items(plan.children()):
        yield from _metrics(child)


def _unites_state(plan: Any) -> bool:
    children = items(plan.children())
    if plan.nodeName() == "Union" and sum(any(True for _ in _metrics(child)) for child in children) > 1:
        return True
    return any(_unites_state(child) for child in children)
