"""Rules for operations that Spark accepts in a stream but that give wrong results or stop working later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from tidemill.backfill.plan_tree import Node
from tidemill.engine.plan_check.analysed import classes_in, has_watermark, is_stream, paired, shapes
from tidemill.engine.plan_check.join_bounds import bounded_when_optimized, unbounded_sides
from tidemill.engine.scala import items
from tidemill.spec.capabilities import OutputMode
from tidemill.spec.transform_rules import (
    CLOCK,
    DUPLICATES,
    FIRST_ROWS,
    GROWING_STATE,
    INPUT_FILE,
    NEEDS_ROCKSDB,
    NEVER_ENDS,
    OWN_SOURCE,
    RANDOM,
    ROW_ORDER,
    STATE_AND_POISON,
    TWICE,
    UNBOUNDED_JOIN,
    UNBOUNDED_STATE,
    UNSURE_FUNCTION,
    UNUSED,
    Rule,
)

Found = tuple[Rule, str, Node]

_RULE_OF_EXPRESSION = {
    **dict.fromkeys(("Rand", "Randn", "RandStr", "Shuffle", "SparkPartitionID", "Uniform", "Uuid"), RANDOM),
    "MonotonicallyIncreasingID": RANDOM,
    **dict.fromkeys(("InputFileName", "InputFileBlockStart", "InputFileBlockLength"), INPUT_FILE),
    **dict.fromkeys(("CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now"), CLOCK),
    **dict.fromkeys(("AnyValue", "CollectList", "CollectSet", "First", "Last"), ROW_ORDER),
}


# Nodes that process each row of a stream alone. Functions over batches of rows, such as mapInPandas, may do
# more, but keep nothing from one batch of the stream to the next.
_ONE_BY_ONE = frozenset(
    {
        *("EventTimeWatermark", "Expand", "Filter", "Generate", "Project"),
        *("MapElements", "MapInArrow", "MapInPandas", "MapPartitions", "PythonMapInArrow"),
        *("DeserializeToObject", "SerializeFromObject", "TypedFilter"),
        *("RebalancePartitions", "Repartition", "RepartitionByExpression", "ResolvedHint", "SubqueryAlias"),
        *("UpdateEventTimeWatermarkColumn", "View", "CTERelationDef", "Union", "WithCTE"),
    }
)


def own_findings(
    given: Mapping[str, Node], root: Node, plan: Any, mode: OutputMode, session: SparkSession
) -> list[Found]:
    """Return the findings of Tidemill's own rules: rule, detail, operation.

    Args:
        given: Plans of the transform's input streams, by name.
        root: Plan of its output.
        plan: Spark's object of the output plan.
        mode: Spark's output mode.
        session: Session of the rows.
    """
    found = list(_analysed(list(given.values()), root, plan, mode, session._jvm))
    found += [(rule, name, root) for rule, name in _uses(list(given), plan)]
    if any(rule is UNBOUNDED_JOIN for rule, *_ in found) and bounded_when_optimized(plan, session):
        return [one for one in found if one[0] is not UNBOUNDED_JOIN]
    return found


def with_unbounded_state(found: Iterable[Found]) -> list[Found]:
    """Replace refusals of unbounded state by warnings, for a pipeline that accepts it.

    An outer or semi join is still refused, because it must find out that a row has no match.
    """
    return [
        (UNBOUNDED_STATE, detail, node)
        if rule is DUPLICATES or _is_inner_and_unbounded(rule, node)
        else (rule, detail, node)
        for rule, detail, node in found
    ]


def _is_inner_and_unbounded(rule: Rule, node: Node) -> bool:
    kind = str((node.fields.get("joinType") or {}).get("object", ""))
    return rule is UNBOUNDED_JOIN and kind.rstrip("$").endswith((".Inner", ".Cross"))


def _uses(names: Sequence[str], plan: Any) -> Iterator[tuple[Rule, str]]:
    """Yield the streams, of several, that the result does not use exactly once."""
    leaves = [leaf for leaf in items(plan.collectLeaves()) if leaf.isStreaming()] if len(names) > 1 else []
    # A source that the transform creates itself has no name; another rule reports it.
    used = Counter(leaf.sourceIdentifyingName().toString() for leaf in leaves)
    for name in names if len(names) > 1 else ():
        uses = used[f'name="{name}"']
        if uses != 1:
            yield (TWICE if uses else UNUSED), name


def _analysed(given: Sequence[Node], root: Node, plan: Any, mode: OutputMode, jvm: Any) -> Iterator[Found]:
    before, after = {shape for node in given for shape in shapes(node).values()}, shapes(root)
    for node, known in paired(root, plan):
        if after[id(node)] in before:
            continue
        yield from _of_expressions(node)
        if not is_stream(node):
            continue
        yield from _of_state(node, known, mode)
        if node.kind == "Join":
            yield from _of_join(node, known, jvm)
        if not node.children:
            yield OWN_SOURCE, f"it reads {node.fields.get('sourceName', 'a stream')}", node


def _of_expressions(node: Node) -> Iterator[Found]:
    """Yield functions whose result does not depend only on their arguments; each once per node."""
    names: dict[str, Rule] = {}
    for name, fields in classes_in([value for key, value in node.fields.items() if key != "class"]):
        if name in _RULE_OF_EXPRESSION:
            names[name] = _RULE_OF_EXPRESSION[name]
        elif name == "PythonUDF" and fields.get("udfDeterministic") is False:
            names[str(fields["name"])] = UNSURE_FUNCTION
    for name, rule in names.items():
        yield rule, name, node


def _of_state(node: Node, known: Any, mode: OutputMode) -> Iterator[Found]:
    if node.kind == "Deduplicate" and not has_watermark(known.keys()):
        keys = ", ".join(str(key.fields.get("name")) for key in node.expressions("keys"))
        yield DUPLICATES, f"keys: {keys}", node
    elif node.kind == "Distinct" and not has_watermark(known.output()):
        yield DUPLICATES, "SELECT DISTINCT", node
    elif _by_clock(node, known):
        yield CLOCK, "ProcessingTime", node
    elif node.kind == "GlobalLimit" and mode == "append":
        yield FIRST_ROWS, "limit", node
    elif node.kind == "Aggregate" and mode == "update":
        groups = node.expressions("groupingExpressions")
        if groups and not has_watermark(known.groupingExpressions()):
            yield (
                GROWING_STATE,
                ", ".join(str(group.fields.get("name", group.kind)) for group in groups),
                node,
            )


def endless_runs(root: Node, plan: Any) -> list[Found]:
    """Return the operations that keep an incremental run from ending.

    Args:
        root: Plan of the transform's output.
        plan: Spark's object of it.
    """
    return [
        (NEVER_ENDS, "ProcessingTime", node) for node, known in paired(root, plan) if _by_clock(node, known)
    ]


def needing_rocksdb(root: Node) -> list[Found]:
    """Return the operations that need RocksDB, because Spark's in-memory store does not support them."""
    return [(NEEDS_ROCKSDB, node.kind, node) for node in root.walk() if _has_own_state(node)]


def _has_own_state(node: Node) -> bool:
    return node.kind.startswith("TransformWithState") and is_stream(node)


def brings_together(root: Node) -> list[Found]:
    """Return an operation that may combine rows of a stream, so that parts of a batch give other results.

    Args:
        root: Plan of the transform's output.
    """
    found = [node for node in root.walk() if is_stream(node) and not _takes_rows_one_by_one(node)]
    # The lowest operation is the user's; those above it may be Spark's.
    return [(STATE_AND_POISON, node.kind, node) for node in found[-1:]]


def keeps_no_state(root: Node) -> bool:
    """Return True if each operation processes its rows one by one, so that none has state.

    Below a reference to a common table expression, the plan does not show if its rows come from a stream.
    """
    return all(_takes_rows_one_by_one(node) and node.kind != "CTERelationRef" for node in root.walk())


def _takes_rows_one_by_one(node: Node) -> bool:
    if node.kind == "Join":
        # For common table expressions, the plan does not show here if they are streams.
        named = (any(below.kind == "CTERelationRef" for below in child.walk()) for child in node.children)
        return sum(map(is_stream, node.children)) == 1 and not any(named)
    return node.kind in _ONE_BY_ONE or not node.children


def _by_clock(node: Node, known: Any) -> bool:
    """Return True for a `transformWithState` whose timers and TTL use processing time."""
    if not _has_own_state(node):
        return False
    return str(known.timeMode().toString()) == "ProcessingTime"


def _of_join(node: Node, join: Any, jvm: Any) -> Iterator[Found]:
    """Yield a join of two streams if Spark can never drop the rows of one of its sides."""
    if not all(is_stream(child) for child in node.children):
        return
    unbounded = unbounded_sides(join, jvm)
    if unbounded:
        yield UNBOUNDED_JOIN, f"kept for ever: the rows of the {' and the '.join(unbounded)} side", node
