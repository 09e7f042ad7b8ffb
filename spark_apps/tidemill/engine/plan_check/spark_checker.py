"""Spark's own check for operations that a stream cannot do, run before a query is started."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from tidemill.backfill.plan_tree import Node
from tidemill.engine.plan_check.analysed import node_of, plan_of
from tidemill.spec.capabilities import OutputMode
from tidemill.spec.transform_rules import (
    CHAINED,
    COMPLETE,
    DISTINCT_AGGREGATE,
    DUPLICATES,
    JOIN_MODE,
    JOIN_SIDE,
    LIMIT,
    NO_WATERMARK,
    OTHERWISE,
    RANDOM,
    ROW_WINDOW,
    SAMPLE,
    SESSION_MODE,
    SET_OPERATION,
    SORT,
    UNBOUNDED_JOIN,
    Rule,
)

# Spark's messages for refused operations; the first match decides.
_RULES: tuple[tuple[str, Rule], ...] = (
    (r"^Sorting is not supported", SORT),
    (r"^(?:Limits are|Offset is) not supported", LIMIT),
    (r"^dropDuplicatesWithinWatermark is not supported", DUPLICATES),
    (r"streaming aggregations without watermark", NO_WATERMARK),
    (r"session window streaming aggregations", SESSION_MODE),
    (r"possible 'correctness' issue|[Mm]ultiple (?:streaming aggregations|stateful)", CHAINED),
    (r"no streaming aggregations", COMPLETE),
    (r"^Stream-stream \w+ join between two streaming", UNBOUNDED_JOIN),
    (r"join between two streaming .* output mode", JOIN_MODE),
    (r"joins? with (?:a )?streaming .* not supported", JOIN_SIDE),
    (r"^(?:Intersect of|Except on a) streaming", SET_OPERATION),
    (r"NON_TIME_WINDOW_NOT_SUPPORTED", ROW_WINDOW),
    (r"^Distinct aggregations are not supported", DISTINCT_AGGREGATE),
    (r"^Sampling is not supported", SAMPLE),
    (r"^Expression\(s\): monotonically_increasing_id", RANDOM),
)

# The operation that Spark's message concerns, if the message does not name it.
_ABOUT = {NO_WATERMARK: "Aggregate", SESSION_MODE: "Aggregate", ROW_WINDOW: "Window"}


@dataclass(frozen=True)
class Refused:
    """An operation that Spark refuses.

    Args:
        rule: The matching rule.
        reason: First line of Spark's message.
        node: The operation; None if it is not known.
    """

    rule: Rule
    reason: str
    node: Node | None


def ask_spark(result: DataFrame, root: Node, mode: OutputMode) -> Refused | None:
    """Return the error that Spark would raise at the start of the query; None if it would start.

    Args:
        result: Rows for the sinks.
        root: Plan of the result.
        mode: Spark's output mode.
    """
    jvm: Any = result.sparkSession._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(plan_of(result), output_mode_of(result, mode))
    except AnalysisException as error:
        return _refused(error, root)
    return None


def output_mode_of(result: DataFrame, mode: OutputMode) -> Any:
    """Return Spark's object of an output mode."""
    jvm: Any = result.sparkSession._jvm
    return getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())()


def reason_of(error: AnalysisException) -> str:
    """Return the first line of Spark's message."""
    return str(error).strip().partition("\n")[0].rstrip(";")


def _refused(error: AnalysisException, root: Node) -> Refused:
    reason = reason_of(error)
    rule = next((rule for pattern, rule in _RULES if re.search(pattern, reason)), OTHERWISE)
    if rule is NO_WATERMARK and (distinct := _only(root, "Distinct")) is not None:
        # Spark plans it as an aggregation by all columns.
        return Refused(DUPLICATES, reason, distinct)
    return Refused(rule, reason, named_node(error) or _only(root, _ABOUT.get(rule, "")))


def named_node(error: AnalysisException) -> Node | None:
    """Return the operation that Spark attaches to its error."""
    # pyspark keeps the error that Java raised; its class has a plan if Spark knows one.
    origin = getattr(error, "_origin", None)
    if origin is None or "plan" not in dir(origin):
        return None
    plan = origin.plan()
    return node_of(plan.get()) if plan.isDefined() else None


def _only(root: Node, kind: str) -> Node | None:
    found = [node for node in root.walk() if node.kind == kind]
    return found[0] if len(found) == 1 else None
