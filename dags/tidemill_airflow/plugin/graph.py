"""Pipelines and tables in dependency order, with their freshness and the cause of staleness. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from tidemill.spec.readable import short_duration
from tidemill.spec.table_graph import TableGraph, build_graph
from tidemill_airflow.plugin.due import due_at, read_at
from tidemill_airflow.plugin.graph_answers import Graph, GraphEdge, GraphNode, Staleness
from tidemill_airflow.plugin.overview import Seen, health_of, reason_of, state_of

# Staleness of each stale node.
Stale = Mapping[str, Staleness]


def graph_of(seen: Mapping[str, Seen]) -> Graph:
    """Return the graph of the pipelines that a viewer may see.

    Raises:
        SpecError: TIDE-SPEC-027 or -032, as `tidemill graph`.
    """
    specs = {name: each.spec for name, each in seen.items() if each.spec is not None}
    found = build_graph(specs)
    order = found.order()
    columns, stale = _columns(found, order), _stale(found, order, seen)
    nodes = tuple(_node(what, column, seen, stale) for what, column in columns.items())
    return Graph(nodes=nodes, edges=tuple(_edges(found, seen, stale)))


def _columns(found: TableGraph, order: Sequence[str]) -> dict[str, int]:
    """Return the column of each node, one to the right of all its dependencies."""
    columns: dict[str, int] = {}
    for name in order:
        links = found.links[name]
        place = 1 + max((columns.setdefault(what, 0) for what in links.reads), default=0)
        columns[f"pipeline {name}"] = place
        for what in links.writes:
            columns[what] = max(columns.get(what, 0), place + 1)
    return columns


def _stale(found: TableGraph, order: Sequence[str], seen: Mapping[str, Seen]) -> Stale:
    """Return the stale nodes: pipelines in trouble, and everything that depends on their output."""
    stale: dict[str, Staleness] = {}
    for name in order:
        links = found.links[name]
        why = _trouble(seen[name]) or _unread(found, seen, name)
        handed_on = next((stale[what] for what in links.reads if what in stale), None)
        cause = Staleness(pipeline=name, why=why) if why else handed_on
        if cause is not None:
            stale[f"pipeline {name}"] = cause
            for what in links.writes:
                stale.setdefault(what, cause)
    return stale


def _trouble(seen: Seen) -> str:
    """Return why a pipeline is stale by itself: bad health, or a wanted stream without progress."""
    facts, at = seen.state.facts, _read_at(seen)
    if health_of(seen) == "bad":
        return reason_of(seen).partition("\n")[0] or state_of(seen)
    if facts.mode != "stream" or not facts.is_wanted:
        return ""
    if at is None:
        return "it has made no progress yet"
    return "" if facts.now - at <= facts.progress_within else f"no progress for {_age(seen, at)}"


def _unread(found: TableGraph, seen: Mapping[str, Seen], name: str) -> str:
    """Return the reason why an incremental pipeline is stale: newer input, and an overdue run."""
    own, read_at = seen[name], _read_at(seen[name])
    facts, spec = own.state.facts, own.spec
    is_scheduled = facts.mode == "incremental" and not facts.by_hand and facts.desired is None
    if spec is None or not is_scheduled or read_at is None:
        return ""
    newer = [
        writer for writer in found.upstream(name) if (at := _committed_at(seen[writer])) and at > read_at
    ]
    due = due_at(spec.run, read_at) if newer else None
    if due is None or facts.now <= due:
        return ""
    return f"it last read {_age(own, read_at)} ago, and {', '.join(newer)} committed since"


def _read_at(seen: Seen) -> datetime | None:
    """Return the time at which a pipeline last read, or found nothing to read."""
    return read_at(seen.state.facts)


def _committed_at(seen: Seen) -> datetime | None:
    """Return the time of a pipeline's last commit, if its newest driver knows it."""
    return None if seen.state.status is None else seen.state.status.batch_committed_at


def _age(seen: Seen, at: datetime) -> str:
    return short_duration(seen.state.facts.now - at)


def _edges(found: TableGraph, seen: Mapping[str, Seen], stale: Stale) -> Iterator[GraphEdge]:
    for name, links in found.links.items():
        node = f"pipeline {name}"
        cause = stale.get(node)
        own = cause if cause is not None and cause.pipeline == name else None
        read_at, committed_at = _read_at(seen[name]), _committed_at(seen[name])
        for what in links.reads:
            yield GraphEdge(source=what, target=node, at=read_at, stale=own or stale.get(what))
        for what in links.writes:
            yield GraphEdge(source=node, target=what, at=committed_at, stale=cause)


def _node(what: str, column: int, seen: Mapping[str, Seen], stale: Stale) -> GraphNode:
    kind, _, name = what.partition(" ")
    health = health_of(seen[name]) if kind == "pipeline" else None
    return GraphNode(
        id=what, kind=kind, name=name or kind, column=column, health=health, stale=stale.get(what)
    )
