"""`rewind`: tables, offsets and state together back to a batch, in a new generation.

Spark's own parts do not go back alone: Delta keeps the transactions that a RESTORE takes back and would skip
the repeated batches, newer state files would be loaded by number, and a checkpoint that was cut by hand still
has the query id that the ledger knows. So the checkpoint is copied up to the batch under a new query id, the
tables are restored, and the new generation's transaction ids are fresh. The old generation stays as it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from tidemill.checkpoint.current import Base, Current
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.generation_copy import copy_checkpoint, plan_copy
from tidemill.checkpoint.verbs.reset import switch_to
from tidemill.errors import GateRefusedError
from tidemill.ledger.read import Commit
from tidemill.ledger.table_restore import (
    RestoreTable,
    TableRestore,
    restore_through_delta_rs,
    version_is_gone,
    written_by_others,
)
from tidemill.ledger.undone import Side, Undo, UntoldError, undo_after
from tidemill.names import Layout, transaction_id
from tidemill.storage.store import Store


@dataclass(frozen=True)
class TableLog:
    """One table that the pipeline writes.

    Args:
        path: Of the table.
        commits: Newest first; empty if there is no table.
        not_restorable: Why the wanted version cannot be had any more; empty if it can.
        event_times: First and last event time of the rows that go, if the files tell.
    """

    path: str
    commits: Sequence[Commit] = ()
    not_restorable: str = ""
    event_times: tuple[datetime, datetime] | None = None


@dataclass(frozen=True)
class RewindFacts:
    """What a rewind is decided from.

    Args:
        live: Record of the live generation.
        generation: Unused name.
        batch_id: Last batch that is to stay.
        planned: Numbers in `offsets/`, rising.
        committed: Numbers in `commits/`, rising.
        tables: By name; `quarantine` is the one of rejected records.
        missing_state: What of the state after the batch cannot be loaded.
        expired: Partitions whose next record the source no longer has, with what is lost; None if the source
            does not answer.
        readers: Pipelines that read each table.
        topics: Kafka sinks, which get the records of the undone batches again.
    """

    live: Current
    side: Side
    generation: str
    batch_id: int
    planned: Sequence[int]
    committed: Sequence[int]
    tables: Mapping[str, TableLog]
    missing_state: Sequence[str] = ()
    expired: Mapping[str, str] | None = field(default_factory=dict)
    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    topics: Sequence[str] = ()


def live_side(history: Sequence[Current]) -> Side:
    """Who wrote the batches that lead to the live generation.

    Args:
        history: Records, newest first.
    """
    records = {record.generation: record for record in reversed(history)}
    record: Current | None = history[0]
    generations: set[str] = set()
    while record is not None and record.generation not in generations:
        generations.add(record.generation)
        shares = record.base is not None and record.base.batch_id is not None
        record = records.get(record.base.generation) if shares and record.base else None
    return Side(history[0].pipeline, frozenset(generations))


def plan_rewind(facts: RewindFacts) -> dict[str, Any]:
    """What becomes of each table, and what is lost or repeated.

    Raises:
        GateRefusedError: TIDE-CKPT-040 if others would lose rows, -070 if the checkpoint does not hold the
            batch, -071 if the state after it is gone, -072 if a table cannot be brought back, -075 if the
            source no longer has what follows it.
    """
    _check_checkpoint(facts)
    _check_state(facts)
    _check_source(facts)
    undone = {name: _undo(facts, log) for name, log in facts.tables.items() if log.commits}
    numbers = [
        n for undo in undone.values() for c in undo.batches if (n := facts.side.batch_of(c)) is not None
    ]
    return {
        "generation": facts.generation,
        "parent": facts.live.generation,
        "number": facts.live.number + 1,
        "query_id": str(uuid.uuid4()),
        "batch_id": facts.batch_id,
        "batches_undone": _batches_undone(facts, numbers),
        "tables": {name: _table(facts, name, undo) for name, undo in undone.items()},
        "read_by": {name: list(facts.readers.get(name, ())) for name, undo in undone.items() if undo.batches},
        "sent_again": list(facts.topics) if _batches_undone(facts, numbers) else [],
        "source_answered": facts.expired is not None,
    }


def rewind_steps(
    store: Store,
    layout: Layout,
    request: Request,
    plan: Mapping[str, Any],
    restore: RestoreTable = restore_through_delta_rs,
) -> tuple[Step, ...]:
    """1. The checkpoint's copy. 2. The tables. 3. The new generation is the live one."""
    pipeline = request.pipeline
    parent = layout.checkpoint(pipeline, plan["parent"])
    target = layout.checkpoint(pipeline, plan["generation"])
    return (
        Step("copy checkpoint", partial(copy_generation, store, (parent, target), plan)),
        *(
            Step(f"restore {name}", partial(restore, table_restore(request, plan, name)))
            for name in plan["tables"]
        ),
        Step("switch generation", partial(switch_to_copy, store, layout, request, plan)),
    )


def copy_generation(store: Store, paths: tuple[str, str], plan: Mapping[str, Any]) -> None:
    """Copy a checkpoint as it was after the plan's batch."""
    reader = CheckpointReader(store, paths[0])
    copy_checkpoint(reader, paths[1], plan_copy(reader, plan["batch_id"], plan["query_id"]))


def table_restore(request: Request, plan: Mapping[str, Any], name: str) -> TableRestore:
    """One table of a plan."""
    table = plan["tables"][name]
    return TableRestore(
        table["path"], table["to"], request.request_id, table["version"], tuple(table["closes"])
    )


def switch_to_copy(store: Store, layout: Layout, request: Request, plan: Mapping[str, Any]) -> None:
    """Make the copy the live generation."""
    base = Base(
        generation=plan["parent"],
        batch_id=plan["batch_id"],
        tables={name: table["to"] for name, table in plan["tables"].items()},
    )
    switch_to(
        store,
        layout,
        Current(
            number=plan["number"],
            pipeline=request.pipeline,
            generation=plan["generation"],
            why=f"{request.verb}: {request.why}",
            by=request.by,
            request_id=request.request_id,
            base=base,
        ),
    )


def _check_checkpoint(facts: RewindFacts) -> None:
    batch_id = facts.batch_id
    needed = {batch_id, max(0, batch_id - 1)}
    if batch_id in facts.committed and needed <= set(facts.planned):
        return
    held = sorted(n for n in facts.committed if n in facts.planned and (n == 0 or n - 1 in facts.planned))
    raise GateRefusedError(
        "TIDE-CKPT-070",
        "The checkpoint does not hold this batch. Nothing was changed. "
        "Spark keeps a limited number of batches, and could not go on after one that it has purged.",
        facts={
            "pipeline": facts.live.pipeline,
            "generation": facts.live.generation,
            "batch_id": batch_id,
            "held": f"{held[0]}-{held[-1]}" if held else "none",
        },
        fix="choose a batch that is held, restore a backup that holds it, or begin anew: "
        f"tidemill checkpoint reset {facts.live.pipeline}",
        runbook="rewind",
    )


def _check_state(facts: RewindFacts) -> None:
    if facts.missing_state:
        raise GateRefusedError(
            "TIDE-CKPT-071",
            "The state after this batch cannot be loaded any more. Nothing was changed. "
            "Spark would fail at the next batch.",
            facts={
                "pipeline": facts.live.pipeline,
                "batch_id": facts.batch_id,
                "missing": list(facts.missing_state[:5]),
                "count": len(facts.missing_state),
            },
            fix="choose a newer batch, or restore a backup that holds it",
            runbook="rewind",
        )


def _check_source(facts: RewindFacts) -> None:
    if facts.expired:
        raise GateRefusedError(
            "TIDE-CKPT-075",
            "The broker no longer has the records that follow this batch: retention has removed them. "
            "Nothing was changed. The undone rows could not be made again.",
            facts={"pipeline": facts.live.pipeline, "batch_id": facts.batch_id, "lost": dict(facts.expired)},
            fix="choose a newer batch, or leave the tables as they are and backfill the range",
            runbook="rewind",
        )


def _undo(facts: RewindFacts, log: TableLog) -> Undo:
    try:
        undo = undo_after(log.commits, facts.side, facts.batch_id)
    except UntoldError as error:
        raise version_is_gone(log.path, None, str(error)) from error
    if log.not_restorable:
        raise version_is_gone(log.path, undo.to, log.not_restorable)
    if undo.foreign:
        raise written_by_others(log.path, undo.foreign)
    return undo


def _table(facts: RewindFacts, name: str, undo: Undo) -> dict[str, Any]:
    moments = [commit.committed_at for commit in undo.batches]
    log = facts.tables[name]
    return {
        "path": log.path,
        "version": undo.version,
        "to": undo.to,
        "closes": [transaction_id(facts.live.pipeline, facts.live.generation, name)],
        "batches": len(undo.batches),
        "rows": undo.rows,
        "committed": [min(moments), max(moments)] if moments else None,
        "event_times": log.event_times,
        "maintenance": len(undo.maintenance),
    }


def _batches_undone(facts: RewindFacts, in_tables: Sequence[int]) -> list[int]:
    """First and last batch that are undone; empty if none is."""
    numbers = [n for n in (*facts.planned, *facts.committed, *in_tables) if n > facts.batch_id]
    return [min(numbers), max(numbers)] if numbers else []
