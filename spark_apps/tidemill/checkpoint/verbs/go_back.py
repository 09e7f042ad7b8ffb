"""A pipeline goes on from a batch of a checkpoint: the core of rewind, restore, fork and repartition.

Spark's own parts do not go back alone: Delta keeps the transactions that a RESTORE takes back and would skip
the repeated batches, newer state files would be loaded by number, and a checkpoint that was cut by hand still
has the query id that the ledger knows. So the checkpoint is copied up to the batch under a new query id, each
table is brought to the batch and closed to the generation that is left, and the new generation's transaction
ids are fresh. The old generation stays as it is, and the same core leads back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tidemill.checkpoint.current import (
    Accepted,
    Base,
    BaseTable,
    Current,
    claim_generation,
    switch_generation,
)
from tidemill.checkpoint.gate import CheckpointFacts, TableFacts, examine, gather_cut
from tidemill.checkpoint.gate.changes import unaccepted
from tidemill.checkpoint.gate.source_facts import ReadSince
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.procedure.journal import Notes
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.tables import Way, ways_to
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.code import code_of
from tidemill.ledger.entry import LedgerEntry, OffsetRange
from tidemill.ledger.proof import Side
from tidemill.ledger.shape import shape_of
from tidemill.ledger.table_restore import RestoreTable, TableRestore, written_by_others
from tidemill.names import Layout, source_name, transaction_id
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Asks the broker for what only it knows; the facts as they are, and why, if it does not answer.
AskBroker = Callable[[CheckpointFacts, Pipeline], tuple[CheckpointFacts, str]]

# Fills the folder of a new generation, under a query id.
Fill = Callable[[str, str], None]

# Gives one table of a plan to the new generation, whose first entry it gets; returns the table's id.
HandOver = Callable[[Mapping[str, Any], LedgerEntry], str]


@dataclass(frozen=True)
class Origin:
    """The checkpoint to go on from.

    Args:
        reader: Its files.
        generation: Its name.
        side: Whose batches lead to it.
        tables: Ids that the pipeline's tables must have, as far as they are known.
    """

    reader: CheckpointReader
    generation: str
    side: Side
    tables: Mapping[str, str | None]


@dataclass(frozen=True)
class Prospect:
    """Going on from a batch, with nothing that forbids it.

    Args:
        pipeline: What goes on.
        origin: From where.
        live: Record of the live generation; None where the pipeline never ran.
        batch_id: Last one that stays.
        ways: What leads each table there.
        facts: The checkpoint as it will be.
        unanswered: Why no broker was asked whether the source has what follows; empty if it was.
    """

    pipeline: Pipeline
    origin: Origin
    live: Current | None
    batch_id: int
    ways: Mapping[str, Way]
    facts: CheckpointFacts
    unanswered: str = ""


def origin_of(store: Store, pipeline: Pipeline, record: Current) -> Origin:
    """A generation of the pipeline itself."""
    tables = {} if record.base is None else record.base.tables
    return Origin(
        CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, record.generation)),
        record.generation,
        record.side,
        {name: table.id for name, table in tables.items() if table is not None},
    )


def look_ahead(
    pipeline: Pipeline, origin: Origin, live: Current | None, batch_id: int, ask_broker: AskBroker
) -> Prospect:
    """Check all that must hold, before anything changes.

    Raises:
        GateRefusedError: TIDE-CKPT-070 if the checkpoint does not hold the batch, -075 if the gate would
            refuse to go on from there, because state or input is gone or the declaration was changed; as
            `ways_to`.
    """
    _check_held(pipeline, origin, batch_id)
    left = None if live is None else tuple(live.side.limits)
    ways = ways_to(pipeline, origin.side, batch_id, left, origin.tables)
    facts = gather_cut(origin.reader, pipeline, batch_id, _taken_back(pipeline, live, ways))
    facts, unanswered = ask_broker(facts, pipeline)
    tables = {name: _table_facts(batch_id, way.told) for name, way in ways.items() if way.told is not None}
    prospect = Prospect(pipeline, origin, live, batch_id, ways, replace(facts, tables=tables), unanswered)
    check_prospect(prospect.facts, batch_id)
    return prospect


def _declared_now(facts: CheckpointFacts) -> Accepted:
    return Accepted(shape=facts.declared.shape, code=facts.declared.code)


def check_prospect(facts: CheckpointFacts, batch_id: int | None) -> None:
    """Refuse what the gate would refuse once it is done.

    Raises:
        GateRefusedError: TIDE-CKPT-075.
    """
    # What was changed since, and could be acknowledged, the verb's own plan tells.
    meant = replace(facts, accepted=_declared_now(facts))
    refusal = next((finding for finding in examine(meant) if finding.severity == "error"), None)
    if refusal is not None:
        raise GateRefusedError(
            "TIDE-CKPT-075",
            f"The pipeline could not go on from there. Nothing was changed. {refusal.problem}",
            facts={"batch_id": batch_id, "cause": refusal.finding_id, **refusal.facts},
            fix=f"choose another batch, or see the runbook {refusal.runbook}; records that are gone from the "
            "source can only be brought from an archive, by a backfill",
            runbook="rewind",
        )


def plan_of_prospect(prospect: Prospect) -> dict[str, Any]:
    """What becomes of checkpoint and tables.

    Raises:
        GateRefusedError: TIDE-CKPT-040, if others would lose rows.
    """
    for way in prospect.ways.values():
        if way.undo.foreign:
            raise written_by_others(way.table.path, way.undo.foreign)
    return {
        **plan_without_tables(prospect),
        "tables": {name: _table(prospect, way) for name, way in prospect.ways.items()},
    }


def plan_without_tables(prospect: Prospect) -> dict[str, Any]:
    """What becomes of the checkpoint."""
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
        "absent": [],
        "changed": unaccepted(prospect.facts),
        "accepted": _declared_now(prospect.facts).model_dump(mode="json"),
        "unanswered": prospect.unanswered,
    }


@dataclass(frozen=True)
class NewGeneration:
    """The making of a generation, step by step.

    Args:
        store: Control files and checkpoints.
        layout: Where they are.
        request: Whose.
        plan: All that was decided.
    """

    store: Store
    layout: Layout
    request: Request
    plan: Mapping[str, Any]

    def steps(self, fill: Fill, hand_over: HandOver) -> tuple[Step, ...]:
        """1. A checkpoint of the attempt's own. 2. The tables. 3. The new generation is the live one."""
        return (
            Step("write checkpoint", partial(self._write_checkpoint, fill)),
            *(
                Step(f"table {name}", partial(self._hand_over, name, hand_over))
                for name in self.plan["tables"]
            ),
            Step("switch generation", self._switch),
        )

    def _write_checkpoint(self, fill: Fill, _: Notes) -> Notes:
        """An attempt that stood still meanwhile fills another folder than the one that goes on."""
        pipeline = self.request.pipeline
        generation, query_id = claim_generation(self.store, self.layout, pipeline, self.plan["above"])
        fill(self.layout.checkpoint(pipeline, generation), query_id)
        return {"generation": generation, "query_id": query_id}

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
            # The request means what is declared now; what the batch was made with is no change either.
            accepted=plan.get("accepted"),
        )
        switch_to(self.store, self.layout, record)


def restoring(restore: RestoreTable) -> HandOver:
    """Hands a table over that stays where it is."""

    def hand_over(table: Mapping[str, Any], base: LedgerEntry) -> str:
        restore(TableRestore(table["path"], table["to"], table["version"], base, tuple(table["closes"])))
        return str(table["id"])

    return hand_over


def switch_to(store: Store, layout: Layout, record: Current) -> None:
    """Make a generation the live one; done before is done.

    Raises:
        GateRefusedError: TIDE-CKPT-042, if somebody else has changed the generation since the plan.
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
    """Transaction ids of the generation that is left."""
    return [] if live is None else [transaction_id(live.pipeline, live.generation, table)]


def base_entry(
    pipeline: Pipeline, table: str, batch_id: int | None, carried: Mapping[str, Any]
) -> dict[str, Any]:
    """The first entry of the new generation, without what only its attempt knows.

    Args:
        pipeline: What goes on.
        table: As in ledger entries.
        batch_id: Batch after which the table stands; None if the generation begins without any.
        carried: What else it says, such as sources and shape of the parent's last batch.
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
    """What a batch says that holds for the generation after it."""
    shape = {} if told.shape is None else {"shape": told.shape}
    return {"sources": told.sources, "watermark": told.watermark, "code": told.code, **shape}


def never_ran(pipeline: str) -> UsageError:
    """The refusal of a verb that needs a checkpoint."""
    return UsageError(
        "TIDE-CKPT-076",
        "This pipeline has never run; it has no checkpoint.",
        facts={"pipeline": pipeline},
        fix=f"start it: tidemill start {pipeline}",
    )


def _table_facts(batch_id: int, told: LedgerEntry) -> TableFacts:
    """A table as it will be."""
    return TableFacts(
        batch_id,
        begun=True,
        shape=told.shape,
        code=told.code.digest,
        topic_ids=told.topic_ids,
        cluster=told.cluster,
        clusters={name: read.cluster for name, read in told.sources.items()},
    )


def _check_held(pipeline: Pipeline, origin: Origin, batch_id: int) -> None:
    planned, committed = origin.reader.offset_ids, origin.reader.commit_ids
    if batch_id in committed and {batch_id, max(0, batch_id - 1)} <= set(planned):
        return
    held = sorted(n for n in committed if n in planned and (n == 0 or n - 1 in planned))
    raise GateRefusedError(
        "TIDE-CKPT-070",
        "The checkpoint does not hold this batch. Nothing was changed. "
        "Spark keeps a limited number of batches, and could not go on after one that it has purged.",
        facts={
            "pipeline": pipeline.name,
            "generation": origin.generation,
            "batch_id": batch_id,
            "held": f"{held[0]}-{held[-1]}" if held else "none",
        },
        fix="choose a batch that is held, restore a backup that holds it, or begin anew: "
        f"tidemill checkpoint reset {pipeline.name}",
        runbook="rewind",
    )


def _taken_back(pipeline: Pipeline, live: Current | None, ways: Mapping[str, Way]) -> ReadSince | None:
    """What the live generation has read for the rows that go."""
    entries = (commit.entry for way in ways.values() for commit in way.undo.batches)
    if live is None:
        return None
    mine = (entry for entry in entries if entry is not None and entry.generation == live.generation)
    numbers = [entry.batch_id for entry in mine if entry.batch_id is not None]
    if not numbers:
        return None
    path = pipeline.layout.checkpoint(pipeline.name, live.generation)
    return ReadSince(CheckpointReader(Store(pipeline.layout.root), path), max(numbers))


def _newest_generation(prospect: Prospect) -> str:
    """The newest name that the tables know, also of tables that came from elsewhere: its ids are taken."""
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
    """By this table's entry of the batch, else another one's (the quarantine has not every), else offsets."""
    told = (w.told for w in (way, *prospect.ways.values()) if w.told is not None)
    found = next((entry for entry in told if entry.batch_id == prospect.batch_id), None)
    if found is not None:
        return carried_over(found)
    file = prospect.facts.planned_batches.get(prospect.batch_id)
    ends = {} if file is None else file.ends
    return {"sources": {source_name(key): OffsetRange(end=end) for key, end in ends.items()}}
