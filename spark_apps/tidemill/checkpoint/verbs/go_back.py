"""Continue a pipeline from a batch of a checkpoint: the core of rewind, restore, fork and repartition.

Spark's and Delta's files cannot simply be moved back. Delta keeps the transaction versions after a RESTORE
and would skip the repeated batches. Newer state files would be loaded by number. A checkpoint that was
truncated by hand keeps the query id that the ledger knows. So the checkpoint is copied up to the batch under
a new query id. Each table is restored to the batch and closed to the abandoned generation, and the new
generation has new transaction ids. The old generation stays unchanged, so the same core can return to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.checkpoint.current import (
    Base,
    BaseTable,
    Current,
    claim_generation,
    read_current,
    switch_generation,
)
from tidemill.checkpoint.gate.changes import unaccepted
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.procedure.journal import Notes
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.prospect import Prospect, declared_now
from tidemill.checkpoint.verbs.tables import Way
from tidemill.errors import GateRefusedError
from tidemill.ledger.code import code_of
from tidemill.ledger.entry import LedgerEntry, OffsetRange
from tidemill.ledger.shape import shape_of
from tidemill.ledger.table_restore import RestoreTable, TableRestore, has_begun, written_by_others
from tidemill.names import Layout, source_name, transaction_id
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Fills the folder of a new generation, under a query id.
Fill = Callable[[str, str], None]

# Hands one table of a plan to the new generation and writes its first ledger entry; returns the table's id.
HandOver = Callable[[Mapping[str, Any], LedgerEntry], str]


def plan_of_prospect(prospect: Prospect) -> dict[str, Any]:
    """Return the plan for checkpoint and tables.

    Raises:
        GateRefusedError: TIDE-CKPT-040, if other writers would lose rows.
    """
    for way in prospect.ways.values():
        if way.undo.foreign:
            raise written_by_others(way.table.path, way.undo.foreign)
    return {
        **plan_without_tables(prospect),
        "tables": {name: _table(prospect, way) for name, way in prospect.ways.items()},
    }


def plan_without_tables(prospect: Prospect) -> dict[str, Any]:
    """Return the plan for the checkpoint."""
    live, origin = prospect.live, prospect.origin
    undone = {c.entry.batch_id for way in prospect.ways.values() for c in way.undo.batches if c.entry}
    if live is not None and live.generation == origin.generation:
        undone |= {number for number in origin.reader.offset_ids if number > prospect.batch_id}
    numbers = sorted(number for number in undone if number is not None)
    return {
        "parent": origin.generation,
        "live": None if live is None else live.generation,
        "number": 1 if live is None else live.number + 1,
        "above": _newest_generation(prospect),
        "batch_id": prospect.batch_id,
        "begins_after": prospect.batch_id,
        "lineage": origin.side.up_to(prospect.batch_id),
        "batches_undone": [numbers[0], numbers[-1]] if numbers else [],
        "late_rows_may_differ": bool(
            numbers and prospect.facts.state.operators and _has_event_time(prospect)
        ),
        "absent": [],
        "changed": unaccepted(prospect.facts),
        "accepted": declared_now(prospect.facts).model_dump(mode="json"),
        "unanswered": prospect.unanswered,
    }


@dataclass(frozen=True)
class NewGeneration:
    """The creation of a generation, step by step.

    Args:
        store: Control files and checkpoints.
        layout: Paths in the storage.
        request: The request.
        plan: The plan.
    """

    store: Store
    layout: Layout
    request: Request
    plan: Mapping[str, Any]

    def steps(self, fill: Fill, hand_over: HandOver) -> tuple[Step, ...]:
        """Return the steps: write a new checkpoint, hand over the tables, switch the generation."""
        return (
            Step("write checkpoint", partial(self._write_checkpoint, fill), self._missing_in_checkpoint),
            *(
                Step(
                    f"table {name}",
                    partial(self._hand_over, name, hand_over),
                    partial(self._missing_in_table, table),
                )
                for name, table in self.plan["tables"].items()
            ),
            Step("switch generation", self._switch, self._missing_record),
        )

    def _write_checkpoint(self, fill: Fill, _: Notes) -> Notes:
        """Fill a new folder, so that a stalled attempt and the attempt that continues never share one."""
        pipeline = self.request.pipeline
        generation, query_id = claim_generation(self.store, self.layout, pipeline, self.plan["above"])
        fill(self.layout.checkpoint(pipeline, generation), query_id)
        return {"generation": generation, "query_id": query_id}

    def _missing_in_checkpoint(self, notes: Notes) -> str:
        path = self.layout.checkpoint(self.request.pipeline, notes["generation"])
        batches = CheckpointBatches(self.store, path)
        there = (batches.query_id(), batches.last_committed())
        wanted = (notes["query_id"], self.plan["begins_after"])
        if there != wanted:
            return f"query id and newest batch of {path} are {there}, not {wanted}"
        begun = self.plan.get("folders", {})
        return ", ".join(f"{path}/sources/{name}/0" for name in begun if batches.initial_offset(name) is None)

    def _missing_in_table(self, table: Mapping[str, Any], notes: Notes) -> str:
        if has_begun(table["path"], notes["query_id"], table.get("version", -1)):
            return ""
        return f"the first commit of generation {notes['generation']} in {table['path']}"

    def _missing_record(self, notes: Notes) -> str:
        live = read_current(self.store, self.layout, self.request.pipeline)
        there = None if live is None else (live.number, live.generation)
        wanted = (self.plan["number"], notes["generation"])
        return "" if there == wanted else f"live generation is {there}, not {wanted}"

    def _hand_over(self, name: str, hand_over: HandOver, notes: Notes) -> Notes:
        table = self.plan["tables"][name]
        mine = {"generation": notes["generation"], "query_id": notes["query_id"]}
        base = {**table["base"], **mine, "run_id": self.request.request_id}
        return {name: hand_over(table, LedgerEntry.model_validate(base))}

    def _switch(self, notes: Notes) -> None:
        plan, request = self.plan, self.request
        tables = {n: BaseTable(id=notes[n], version=table["to"]) for n, table in plan["tables"].items()}
        base = Base(
            generation=plan["parent"],
            batch_id=plan["begins_after"],
            lineage=plan["lineage"],
            tables={**dict.fromkeys(plan["absent"]), **tables},
        )
        record = Current(
            number=plan["number"],
            pipeline=request.pipeline,
            generation=notes["generation"],
            why=f"{request.verb}: {request.why}",
            by=request.by,
            request_id=request.request_id,
            base=base,
            # The request accepts the current declaration, and also the one that made the batch.
            accepted=plan.get("accepted"),
        )
        switch_to(self.store, self.layout, record)


def restoring(restore: RestoreTable) -> HandOver:
    """Return a function that hands over a table by restoring it in place."""

    def hand_over(table: Mapping[str, Any], base: LedgerEntry) -> str:
        restore(TableRestore(table["path"], table["to"], table["version"], base, tuple(table["closes"])))
        return str(table["id"])

    return hand_over


def switch_to(store: Store, layout: Layout, record: Current) -> None:
    """Make a generation the live one; do nothing if this request has already done so.

    Raises:
        GateRefusedError: TIDE-CKPT-042, if another request has changed the generation since the plan.
    """
    if switch_generation(store, layout, record):
        return
    path = f"{layout.current(record.pipeline)}/{record.number:08d}.json"
    there = Current.model_validate(store.read_json(path))
    if there.request_id != record.request_id:
        raise GateRefusedError(
            "TIDE-CKPT-042",
            "The live generation has been changed since the plan was made. This request went no further.",
            facts={"pipeline": record.pipeline, "generation": there.generation, "by": there.by},
            fix="release the hold with --force, and plan again",
            runbook="unfinished-procedure",
        )


def closed_ids(live: Current | None, table: str) -> list[str]:
    """Return the transaction ids of the abandoned generation."""
    return [] if live is None else [transaction_id(live.pipeline, live.generation, table)]


def base_entry(
    pipeline: Pipeline, table: str, batch_id: int | None, carried: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the first entry of the new generation, without the values that only an attempt knows.

    Args:
        pipeline: Pipeline that continues.
        table: Name as in ledger entries.
        batch_id: Last batch in the table; None if the generation begins without one.
        carried: Further values, such as sources and shape of the parent's last batch.
    """
    fresh = LedgerEntry(
        pipeline=pipeline.name,
        output=table,
        mode="base",
        run_id="",
        batch_id=batch_id,
        rows=0,
        code=code_of(pipeline),
        shape=shape_of(pipeline.spec),
    )
    return fresh.model_copy(update=carried).model_dump(mode="json")


def carried_over(told: LedgerEntry) -> dict[str, Any]:
    """Return the values of a batch's entry that also hold for the next generation."""
    shape = {} if told.shape is None else {"shape": told.shape}
    return {"sources": told.sources, "watermark": told.watermark, "code": told.code, **shape}


def _has_event_time(prospect: Prospect) -> bool:
    return any(stream.event_time is not None for stream in prospect.pipeline.spec.streams.values())


def _newest_generation(prospect: Prospect) -> str:
    """Return the newest generation that the tables know, even from tables copied from elsewhere.

    The new generation must be higher, because the transaction ids of this one are taken.
    """
    entries = (commit.entry for way in prospect.ways.values() for commit in way.table.commits)
    mine = {e.generation for e in entries if e and e.pipeline == prospect.pipeline.name and e.generation}
    return max({prospect.origin.generation, *mine})


def _table(prospect: Prospect, way: Way) -> dict[str, Any]:
    undo, name = way.undo, way.table.name
    moments = [commit.committed_at for commit in undo.batches]
    return {
        "path": way.table.path,
        "id": way.table.table_id,
        "version": undo.version,
        "to": undo.to,
        "closes": closed_ids(prospect.live, name),
        "batches": len(undo.batches),
        "rows": undo.rows,
        "returns": list(undo.returns),
        "committed": [min(moments), max(moments)] if moments else None,
        "event_times": way.event_times,
        "maintenance": undo.maintenance,
        "base": base_entry(prospect.pipeline, name, prospect.batch_id, _carried(prospect, way)),
    }


def _carried(prospect: Prospect, way: Way) -> dict[str, Any]:
    """Return the carried values: this table's or another's entry of the batch, or else its offsets.

    The quarantine table does not have an entry for every batch.
    """
    told = (w.told for w in (way, *prospect.ways.values()) if w.told is not None)
    found = next((entry for entry in told if entry.batch_id == prospect.batch_id), None)
    if found is not None:
        return carried_over(found)
    file = prospect.facts.planned_batches.get(prospect.batch_id)
    ends = {} if file is None else file.ends
    return {"sources": {source_name(key): OffsetRange(end=end) for key, end in ends.items()}}
