"""A check that Spark can drop the stored rows of a join of two streams, by Spark's own rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.engine.scala import items

# Any watermark, in milliseconds, to ask Spark for the bound that a join's condition gives. It is above 2^31,
# so that it reaches Java as a Long.
_ANY_WATERMARK = 10**12


def unbounded_sides(join: Any, jvm: Any) -> list[str]:
    """Return the sides of a join, Spark's object, whose rows Spark keeps for ever."""
    helper = jvm.org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper
    if helper.isWatermarkInJoinKeys(join):
        return []
    watermark = jvm.scala.Option.apply(_ANY_WATERMARK)
    left, right = join.left().outputSet(), join.right().outputSet()
    return [
        side
        for side, own, other in (("left", left, right), ("right", right, left))
        if not helper.getStateValueWatermark(own, other, join.condition(), watermark).isDefined()
    ]


def bounded_when_optimized(plan: Any, session: SparkSession) -> bool:
    """Return True if each join of two streams is bounded at run time, with the conditions of a later `where`.

    Args:
        plan: Spark's object, analysed.
        session: Session whose optimizer moves the conditions.
    """
    try:
        # Only the optimizer's rules are needed, not an execution.
        optimized = session._jsparkSession.sessionState().optimizer().execute(plan.clone())
        joins = list(_joins_of_streams(optimized))
        return bool(joins) and not any(unbounded_sides(join, session._jvm) for join in joins)
    except (Py4JError, PySparkException):
        return False


def _joins_of_streams(plan: Any) -> Iterator[Any]:
    children = items(plan.children())
    if plan.nodeName() == "Join" and all(child.isStreaming() for child in children):
        yield plan
    for child in children:
        yield from _joins_of_streams(child)
