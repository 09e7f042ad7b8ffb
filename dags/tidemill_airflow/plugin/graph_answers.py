"""What the API answers of the graph."""

from __future__ import annotations

from datetime import datetime

from tidemill_airflow.plugin.answers import Answer, Health


class Staleness(Answer):
    """What makes something stale.

    Args:
        pipeline: Whose trouble it is.
        why: In a sentence.
    """

    pipeline: str
    why: str


class GraphEdge(Answer):
    """What flows from one node to another.

    Args:
        at: When a pipeline last read what it reads, or last committed what it writes; None if its newest
            driver does not know.
        stale: None of what is fresh.
    """

    source: str
    target: str
    at: datetime | None
    stale: Staleness | None


class GraphNode(Answer):
    """A pipeline, or what it reads or writes.

    Args:
        id: `pipeline orders`, `table silver/orders`, `topic orders`.
        column: Its place from left to right.
        health: Of a pipeline.
        stale: None of what is fresh; what is made of something stale is stale, too.
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
        at: When they were looked at; None if nobody has looked yet.
        problem: Why that may no longer be so; empty if nothing speaks against it.
    """

    at: datetime | None = None
    problem: str = ""
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
