"""`fork`: another pipeline continues from the state of this one, with separate tables.

A fork is for a shadow that runs a new transform next to the old one, or for a rehearsal of a rewind. The
original is only read and may keep running. The fork is declared first: either as a pipeline file with the
same source and other tables, or as the same pipeline with a separate root inside this one, as in a game day.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.source_schemas import copy_source_schemas
from tidemill.checkpoint.upgrade.version import keep_meanings, read_version
from tidemill.checkpoint.verbs.generation_copy import copy_checkpoint
from tidemill.checkpoint.verbs.go_back import NewGeneration, base_entry, carried_over, plan_without_tables
from tidemill.checkpoint.verbs.prospect import (
    AskBroker,
    Prospect,
    check_prospect,
    look_ahead,
    never_ran,
    origin_of,
)
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import open_table
from tidemill.ledger.shape import shape_of
from tidemill.ledger.table_copy import TableCopy, copy_table, size_of
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import Source
from tidemill.storage.advance import Told, nobody_told
from tidemill.storage.store import Store

# Version of a copied table: version 0 creates it, version 1 adds the rows.
_COPIED_VERSION = 1


def plan_fork(
    store: Store,
    pipelines: tuple[Pipeline, Pipeline],
    batch_id: int | None,
    ask_broker: AskBroker,
    without_rows: Collection[str] = (),
) -> dict[str, Any]:
    """Return the plan, with the source table of each of the fork's tables.

    Args:
        store: The storage.
        pipelines: The original, and the fork.
        batch_id: Last batch that both share; by default the newest finished batch.
        ask_broker: Asks the broker which records it still has.
        without_rows: Tables of the fork that begin empty.

    Raises:
        UsageError: TIDE-CKPT-076 if the original has never run, -079 if the declarations do not fit each
            other.
        GateRefusedError: TIDE-CKPT-080 if the fork already has a state or tables; as `look_ahead`.
    """
    origin, fork = pipelines
    _check_declarations(origin, fork)
    _check_place(store, fork)
    live = read_current(store, origin.layout, origin.name)
    if live is None:
        raise never_ran(origin.name)
    source = origin_of(store, origin, live)
    last = max(source.reader.commit_ids, default=-1) if batch_id is None else batch_id
    prospect = look_ahead(origin, source, None, last, ask_broker)
    declared = replace(prospect.facts.declared, shape=shape_of(fork.spec))
    check_prospect(replace(prospect.facts, declared=declared), last)
    return {
        **plan_without_tables(prospect),
        "origin": origin.name,
        "above": "",
        "lineage": {},
        "tables": _tables(prospect, pipelines, without_rows),
    }


def fork_steps(
    store: Store,
    pipelines: tuple[Pipeline, Pipeline],
    request: Request,
    plan: Mapping[str, Any],
    told: Told = nobody_told,
) -> tuple[Step, ...]:
    """Return the steps: copy the checkpoint, copy the tables, and create the fork's first generation."""
    origin, fork = pipelines
    parent = origin.layout.checkpoint(origin.name, plan["parent"])

    def fill(folder: str, query_id: str) -> None:
        copy_source_schemas(store, (origin.layout, origin.name), (fork.layout, fork.name))
        for code in {table["base"]["code"]["digest"] for table in plan["tables"].values()}:
            noted = read_version(store, origin.layout.meanings(origin.name, code))
            keep_meanings(store, fork.layout.meanings(fork.name, code), noted)
        copy_checkpoint(CheckpointReader(store, parent), plan["batch_id"], (folder, query_id), told)

    def copy(table: Mapping[str, Any], base: LedgerEntry) -> str:
        where = (table["from"], table["from_version"], table["path"])
        return copy_table(store, TableCopy(*where, base, table["with_rows"]), told)

    return NewGeneration(store, fork.layout, request, plan).steps(fill, copy)


def _tables(
    prospect: Prospect, pipelines: tuple[Pipeline, Pipeline], without_rows: Collection[str]
) -> dict[str, Any]:
    origin, fork = pipelines
    pairs = zip(origin.spec.delta_sinks, fork.spec.delta_sinks, strict=True)
    names = [(old.table, new.table) for old, new in pairs]
    return {new: _table(prospect, fork, (old, new), new not in without_rows) for old, new in names}


def _table(prospect: Prospect, fork: Pipeline, names: tuple[str, str], with_rows: bool) -> dict[str, Any]:
    old, new = names
    way = prospect.ways[old]
    files, size = size_of(way.table.path, way.undo.to)
    return {
        "of": old,
        "from": way.table.path,
        "from_version": way.undo.to,
        "path": fork.layout.table(new),
        "to": _COPIED_VERSION,
        "files": files,
        "bytes": size,
        "with_rows": with_rows,
        "base": base_entry(fork, new, prospect.batch_id, carried_over(way.told) if way.told else {}),
    }


def _check_place(store: Store, fork: Pipeline) -> None:
    live = read_current(store, fork.layout, fork.name)
    state = [] if live is None else [f"generation {live.generation}"]
    tables = [s.table for s in fork.spec.delta_sinks if open_table(fork.layout.table(s.table)) is not None]
    if state or tables:
        raise GateRefusedError(
            "TIDE-CKPT-080",
            "There is something in the fork's place already. Nothing was changed.",
            facts={"fork": fork.name, "there": ", ".join([*state, *tables])},
            fix="declare the fork under another name, with tables that do not exist",
            runbook="fork",
        )


def _check_declarations(origin: Pipeline, fork: Pipeline) -> None:
    problems = [*_problems(origin, fork)]
    if origin.layout.state(origin.name) == fork.layout.state(fork.name):
        problems.append("a pipeline cannot be its own fork")
    if problems:
        raise UsageError(
            "TIDE-CKPT-079",
            "The fork's declaration does not fit. Nothing was changed.",
            facts={"origin": origin.name, "fork": fork.name, "because": "; ".join(problems)},
            fix="declare it with the same source, and one table of its own for each of the original's",
            runbook="fork",
        )


def _sources(spec: PipelineSpec) -> dict[str, Source]:
    return {name: stream.source for name, stream in spec.streams.items()}


def _problems(origin: Pipeline, fork: Pipeline) -> list[str]:
    old, new = origin.spec, fork.spec
    problems = ["the sources differ"] if _sources(old) != _sources(new) else []
    tables = {origin.layout.table(sink.table) for sink in old.delta_sinks}
    shared = sorted(s.table for s in new.delta_sinks if fork.layout.table(s.table) in tables)
    problems += [f"both write {table}" for table in shared]
    topics = {sink.kafka.topic for sink in old.sinks if sink.kafka}
    problems += [f"both send to {s.kafka.topic}" for s in new.sinks if s.kafka and s.kafka.topic in topics]
    folders = {origin.layout.folder(sink.files.path) for sink in old.sinks if sink.files}
    files = (sink.files.path for sink in new.sinks if sink.files)
    problems += [f"both write {path}" for path in files if fork.layout.folder(path) in folders]
    modes = [[(sink.mode, tuple(sink.key), sink.cdc) for sink in spec.delta_sinks] for spec in (old, new)]
    if modes[0] != modes[1]:
        problems.append(f"tables and modes differ: {_shown(old)} and {_shown(new)}")
    return problems


def _shown(spec: PipelineSpec) -> str:
    return ", ".join(f"{sink.table} ({sink.mode})" for sink in spec.delta_sinks) or "none"
