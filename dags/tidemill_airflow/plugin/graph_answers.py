"""Models of the API's answers about the graph."""

from __future__ import annotations

from datetime import datetime

from tidemill_airflow.plugin.answers import Answer, Health


class Staleness(Answer):
    """Cause of staleness.

    Args:
        pipeline: Pipeline that has the problem.
        why: The problem, in a sentence.
    """

    pipeline: str
    why: str


class GraphEdge(Answer):
    """An edge: data flows from one node to another.

    Args:
        at: Time at which the pipeline last read this input or committed this output; None if its newest
            driver does not know.
        stale: None if fresh.
    """

    source: str
    target: str
    at: datetime | None
    stale: Staleness | None


class GraphNode(Answer):
    """A pipeline, or one of its inputs or outputs.

    Args:
        id: `pipeline orders`, `table silver/orders`, `topic orders`.
        column: Position from left to right.
        health: Health of a pipeline.
        stale: None if fresh; nodes that depend on a stale node are stale.
    """

    id: str
    kind: str
    name: str
    column: int
    health: Health | None
    stale: Staleness | None


class Graph(Answer):
    """Pipelines and tables in dependency order.

    Args:
        at: Time of the snapshot; None before the first one.
        problem: Reason why the snapshot may be outdated; empty otherwise.
    """

    at: datetime | None = None
    problem: str = ""
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
