"""Plans of which it is certain that no operator has state."""

from __future__ import annotations

import pytest

from tidemill.backfill.plan_tree import Node
from tidemill.engine.plan_check.stream_rules import keeps_no_state


def node(kind: str, *children: Node) -> Node:
    return Node(kind, {}, children)


STREAM, TABLE, PART = node("StreamingRelationV2"), node("LogicalRelation"), node("CTERelationRef")
PLANS = {
    "a scan": (STREAM, True),
    "rows one by one": (node("Project", node("Filter", node("EventTimeWatermark", STREAM))), True),
    "two streams put together": (node("Union", STREAM, node("Project", STREAM)), True),
    "a stream beside a table": (node("Join", STREAM, TABLE), True),
    "two streams joined": (node("Join", STREAM, STREAM), False),
    "windows": (node("Project", node("Aggregate", STREAM)), False),
    "rows that come once": (node("Deduplicate", node("Filter", STREAM)), False),
    "a state of its own": (node("TransformWithStateInPySpark", STREAM), False),
    # Spark has the part below its definition only.
    "windows of a part of a query": (
        node("WithCTE", node("Aggregate", PART), node("CTERelationDef", STREAM)),
        False,
    ),
    "an operation of a later Spark": (node("Unheard", STREAM), False),
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_without_state_is_known(plan: str) -> None:
    root, stateless = PLANS[plan]
    assert keeps_no_state(root) is stateless
