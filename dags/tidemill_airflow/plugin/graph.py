"""Pipelines and tables in dependency order, with how fresh each link is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tidemill.spec.table_graph import TableGraph, build_graph
from tidemill_airflow.plugin.answers import Graph, GraphEdge, GraphNode
from tidemill_airflow.plugin.overview import Seen, health_of, newest_at


def graph_of(seen: Mapping[str, Seen]) -> Graph:
    """The graph of the pipelines that a viewer may see.

    Raises:
        SpecError: TIDE-SPEC-027 or -032, as `tidemill graph`.
    """
    specs = {name: each.spec for name, each in seen.items() if each.spec is not None}
    found = build_graph(specs)
    columns = _columns(found)
    pipelines = [_pipeline(seen[name], columns[f"pipeline {name}"]) for name in found.links]
    others = [_other(what, column) for what, column in columns.items() if not what.startswith("pipeline ")]
    return Graph(nodes=(*pipelines, *others), edges=tuple(_edges(found, seen)))


def _columns(found: TableGraph) -> dict[str, int]:
    """Each node one column to the right of all that it depends on."""
    columns: dict[str, int] = {}
    for name in found.order():
        links = found.links[name]
        place = 1 + max((columns.setdefault(what, 0) for what in links.reads), default=0)
        columns[f"pipeline {name}"] = place
        for what in links.writes:
            columns[what] = max(columns.get(what, 0), place + 1)
    return columns


def _edges(found: TableGraph, seen: Mapping[str, Seen]) -> list[GraphEdge]:
    edges = []
    for name, links in found.links.items():
        at, node = newest_at(seen[name]), f"pipeline {name}"
        pairs = [(what, node) for what in links.reads] + [(node, what) for what in links.writes]
        stale = _is_stale(seen[name], at)
        edges += [GraphEdge(source=one, target=other, at=at, is_stale=stale) for one, other in pairs]
    return edges


def _is_stale(seen: Seen, at: datetime | None) -> bool:
    """A stream that has not made progress within its time; of others only trouble tells."""
    facts = seen.state.facts
    if facts.mode != "stream":
        return health_of(seen) == "bad"
    return at is None or facts.now - at > facts.progress_within


def _pipeline(seen: Seen, column: int) -> GraphNode:
    node = f"pipeline {seen.name}"
    return GraphNode(id=node, kind="pipeline", name=seen.name, column=column, health=health_of(seen))


def _other(what: str, column: int) -> GraphNode:
    kind, _, name = what.partition(" ")
    return GraphNode(id=what, kind=kind, name=name or kind, column=column, health=None)
