"""`fork`: another pipeline goes on from where this one stood, with tables of its own.

For a shadow that runs a new transform beside the old one, or to rehearse a rewind. The original is only
read; it may run on meanwhile. The fork is declared first, as a pipeline file with the same source and other
tables.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.checkpoint.current import Base, Current
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.verbs.reset import switch_to
from tidemill.checkpoint.verbs.rewind import copy_generation
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.table_copy import TableCopy, copy_table
from tidemill.names import FIRST_GENERATION, Layout
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.sinks import DeltaSink
from tidemill.storage.store import Store

# A copied table's version: 0 creates it, 1 adds the rows.
_COPIED_VERSION = 1


@dataclass(frozen=True)
class OriginTable:
    """One table of the original.

    Args:
        version: As of the batch; None if there is no table.
        files: Number of its data files.
        size: Their bytes.
    """

    path: str
    version: int | None
    files: int = 0
    size: int = 0


@dataclass(frozen=True)
class ForkFacts:
    """What a fork is decided from.

    Args:
        origin: Name of the original.
        generation: Its live generation.
        batch_id: Last batch that both share.
        is_held: Whether its checkpoint holds that batch and the state after it.
        tables: Its tables by name.
        origin_spec: Its declaration.
        fork: Name of the fork.
        fork_spec: Its declaration.
        fork_paths: Paths of the fork's tables, by name.
        occupied: What of the fork is there already: its state, or tables.
    """

    origin: str
    generation: str
    batch_id: int
    is_held: bool
    tables: Mapping[str, OriginTable]
    origin_spec: PipelineSpec
    fork: str
    fork_spec: PipelineSpec
    fork_paths: Mapping[str, str]
    occupied: tuple[str, ...] = ()


def plan_fork(facts: ForkFacts) -> dict[str, Any]:
    """Which table becomes which.

    Raises:
        UsageError: TIDE-CKPT-079, if the declarations do not fit each other.
        GateRefusedError: TIDE-CKPT-070 if the original does not hold the batch, -080 if there is something in
            the fork's place.
    """
    _check_declarations(facts)
    if facts.occupied:
        raise GateRefusedError(
            "TIDE-CKPT-080",
            "There is something in the fork's place already. Nothing was changed.",
            facts={"fork": facts.fork, "there": ", ".join(facts.occupied)},
            fix="declare the fork under another name, with tables that do not exist",
            runbook="fork",
        )
    if not facts.is_held:
        raise GateRefusedError(
            "TIDE-CKPT-070",
            "The checkpoint does not hold this batch, or not the state after it. Nothing was changed.",
            facts={"pipeline": facts.origin, "generation": facts.generation, "batch_id": facts.batch_id},
            fix="choose a newer batch",
            runbook="fork",
        )
    pairs = zip(facts.origin_spec.delta_sinks, facts.fork_spec.delta_sinks, strict=True)
    return {
        "origin": facts.origin,
        "parent": facts.generation,
        "generation": FIRST_GENERATION,
        "query_id": str(uuid.uuid4()),
        "batch_id": facts.batch_id,
        "tables": {new.table: _table(facts, old, new) for old, new in pairs},
    }


def fork_steps(store: Store, layout: Layout, request: Request, plan: Mapping[str, Any]) -> tuple[Step, ...]:
    """1. The checkpoint's copy. 2. The tables' copies. 3. The fork's first generation."""
    parent = layout.checkpoint(plan["origin"], plan["parent"])
    target = layout.checkpoint(request.pipeline, plan["generation"])
    tables = {name: table for name, table in plan["tables"].items() if table["version"] is not None}
    return (
        Step("copy checkpoint", partial(copy_generation, store, (parent, target), plan)),
        *(
            Step(f"copy {name}", partial(copy_table, store, _copy(request, table)))
            for name, table in tables.items()
        ),
        Step("make generation", partial(_make_live, store, layout, request, plan)),
    )


def _copy(request: Request, table: Mapping[str, Any]) -> TableCopy:
    return TableCopy(table["from"], table["version"], table["to"], request.request_id)


def _table(facts: ForkFacts, old: DeltaSink, new: DeltaSink) -> dict[str, Any]:
    found = facts.tables[old.table]
    return {
        "of": old.table,
        "from": found.path,
        "version": found.version,
        "to": facts.fork_paths[new.table],
        "files": found.files,
        "bytes": found.size,
    }


def _make_live(store: Store, layout: Layout, request: Request, plan: Mapping[str, Any]) -> None:
    versions = {
        name: None if table["version"] is None else _COPIED_VERSION for name, table in plan["tables"].items()
    }
    record = Current(
        pipeline=request.pipeline,
        generation=plan["generation"],
        why=f"fork of {plan['origin']}: {request.why}",
        by=request.by,
        request_id=request.request_id,
        base=Base(generation=plan["parent"], batch_id=plan["batch_id"], tables=versions),
    )
    switch_to(store, layout, record)


def _check_declarations(facts: ForkFacts) -> None:
    problems = list(_problems(facts))
    if problems:
        raise UsageError(
            "TIDE-CKPT-079",
            "The fork's declaration does not fit. Nothing was changed.",
            facts={"origin": facts.origin, "fork": facts.fork, "because": "; ".join(problems)},
            fix="declare it with the same source, and one table of its own for each of the original's",
            runbook="fork",
        )


def _problems(facts: ForkFacts) -> list[str]:
    old, new = facts.origin_spec, facts.fork_spec
    problems = []
    if facts.origin == facts.fork:
        problems.append("a pipeline cannot be its own fork")
    if old.source != new.source:
        problems.append("the sources differ")
    shared = sorted({s.table for s in old.delta_sinks} & {s.table for s in new.delta_sinks})
    problems += [f"both write {table}" for table in shared]
    topics = {sink.kafka.topic for sink in old.sinks if sink.kafka}
    problems += [f"both send to {s.kafka.topic}" for s in new.sinks if s.kafka and s.kafka.topic in topics]
    modes = [[(sink.mode, tuple(sink.key)) for sink in spec.delta_sinks] for spec in (old, new)]
    if modes[0] != modes[1]:
        problems.append(f"tables and modes differ: {_shown(old)} and {_shown(new)}")
    return problems


def _shown(spec: PipelineSpec) -> str:
    return ", ".join(f"{sink.table} ({sink.mode})" for sink in spec.delta_sinks) or "none"
