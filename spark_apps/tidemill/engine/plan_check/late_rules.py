"""Rules for a late table: each late row must reach it once, and users must know which rows are late."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.backfill.plan_tree import Node
from tidemill.backfill.row_origin import EventWindow
from tidemill.engine.plan_check.analysed import classes_in, is_stream, shapes
from tidemill.spec.transform_rules import OWN_TIME, OWN_WATERMARK, RANGES, READ_TWICE, Rule

Found = tuple[Rule, str, Node]


def late_findings(given: Node, root: Node, has_offsets: bool, window: EventWindow | None) -> Iterator[Found]:
    """Yield the findings in a plan: rule, detail, operation; each rule at most once.

    Args:
        given: Plan of the transform's input, without its watermark.
        root: Plan of its output.
        has_offsets: True if each record has an offset, by which a record that is read twice is recognized.
        window: The proven event-time windows of its rows, if any.
    """
    shape_of_input, all_shapes = shapes(given)[id(given)], shapes(root)
    nodes = list(root.walk())
    own = [
        n for n in nodes if n.kind == "EventTimeWatermark" and all_shapes[id(n.children[0])] != shape_of_input
    ]
    if own:
        yield OWN_WATERMARK, "withWatermark", own[0]
    twice = [n for n in nodes if sum(is_stream(child) for child in n.children) > 1]
    if twice and not has_offsets:
        yield READ_TWICE, twice[0].kind, twice[0]
    ranges = [n for n in nodes if n.kind == "RepartitionByExpression" and _has_order(n)]
    if ranges:
        yield RANGES, "repartitionByRange", ranges[0]
    yield from _by_own_time(nodes, window)


def _has_order(node: Node) -> bool:
    return any(name == "SortOrder" for name, _ in classes_in(node.fields["partitionExpressions"]))


def _by_own_time(nodes: list[Node], window: EventWindow | None) -> Iterator[Found]:
    """Yield a finding if late rows are decided by the row's own time.

    A deduplication also uses it in Spark, so windows after a deduplication receive the same rows.
    """
    sums = [node for node in nodes if node.kind == "Aggregate" and is_stream(node)]
    if not sums or any(node.kind == "Deduplicate" for node in nodes):
        return
    if window is None:
        yield OWN_TIME, "several aggregations" if len(sums) > 1 else "no windows of event time", sums[0]
    elif window.kind != "tumbling":
        yield OWN_TIME, f"{window.kind} windows", sums[0]
