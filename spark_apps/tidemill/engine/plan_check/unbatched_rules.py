"""Rules for transforms whose rows are written continuously. Spark finds some violations too late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from tidemill.backfill.plan_tree import Node
from tidemill.engine.plan_check.analysed import classes_in, is_stream, plan_of
from tidemill.engine.plan_check.spark_checker import named_node, output_mode_of, reason_of
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.transform_rules import NOT_CONTINUOUS, NOT_REAL_TIME, Rule

Found = tuple[Rule, str, Node]

# Nodes of an analysed plan that become operators on Spark's list for real-time mode (RealTimeModeAllowlist).
# A join is allowed only with static rows, as a broadcast.
_IN_REAL_TIME = frozenset(
    {
        *("Expand", "Filter", "Generate", "Join", "Project", "ResolvedHint", "SubqueryAlias", "View"),
        *("CTERelationDef", "EventTimeWatermark", "WithCTE"),
    }
)


def unbatched_findings(spec: PipelineSpec, result: DataFrame, root: Node) -> list[Found]:
    """Return the findings: rule, detail, operation; empty for a pipeline with batches.

    Args:
        spec: The pipeline.
        result: Output of its transform.
        root: Plan of the output.
    """
    trigger = spec.run.trigger_of(spec.run.mode)
    plan, mode = plan_of(result), output_mode_of(result, spec.output_mode)
    checker: Any = result.sparkSession._jvm
    checker = checker.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    if trigger == "continuous":
        return list(_asked(NOT_CONTINUOUS, lambda: checker.checkForContinuous(plan, mode), root))
    if trigger != "real_time":
        return []
    asked = _asked(NOT_REAL_TIME, lambda: checker.checkAdditionalRealTimeModeConstraints(plan, mode), root)
    return [*asked, *_in_real_time(root)]


def _asked(rule: Rule, ask: Callable[[], object], root: Node) -> Iterator[Found]:
    try:
        ask()
    except AnalysisException as error:
        yield rule, reason_of(error), named_node(error) or root


def _in_real_time(root: Node) -> Iterator[Found]:
    """Yield the lowest operation that is not allowed, which is the user's; those above it may be Spark's."""
    below = [node for node in root.walk() if node.children and is_stream(node)]
    other = [node for node in below if not _is_allowed(node)]
    if other:
        yield NOT_REAL_TIME, other[-1].kind, other[-1]
        return
    for node in below:
        expressions = classes_in(list(node.fields.values()))
        names = [str(fields["name"]) for name, fields in expressions if name == "PythonUDF"]
        if names:
            yield NOT_REAL_TIME, f"Python function {names[0]}", node
            return


def _is_allowed(node: Node) -> bool:
    return node.kind in _IN_REAL_TIME and sum(map(is_stream, node.children)) == 1
