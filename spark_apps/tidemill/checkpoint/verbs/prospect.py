"""What going on from a batch of a checkpoint meets: found out, and refused, before anything changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from tidemill.checkpoint.current import Accepted, Current
from tidemill.checkpoint.gate import CheckpointFacts, TableFacts, examine, gather_cut
from tidemill.checkpoint.gate.gather import with_meanings
from tidemill.checkpoint.gate.source_facts import ReadSince
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.tables import Way, ways_to
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.proof import Side
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Asks the broker for what only it knows; the facts as they are, and why, if it does not answer.
AskBroker = Callable[[CheckpointFacts, Pipeline], tuple[CheckpointFacts, str]]


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
    # A fork has no live generation: it would read again what the original has read.
    since = _read_since(pipeline, origin.reader, ()) if live is None else _taken_back(pipeline, live, ways)
    facts = gather_cut(origin.reader, pipeline, batch_id, since)
    facts, unanswered = ask_broker(facts, pipeline)
    tables = {name: _table_facts(batch_id, way.told) for name, way in ways.items() if way.told is not None}
    known = with_meanings(origin.reader.store, pipeline, replace(facts, tables=tables))
    prospect = Prospect(pipeline, origin, live, batch_id, ways, known, unanswered)
    check_prospect(prospect.facts, batch_id)
    return prospect


def check_prospect(facts: CheckpointFacts, batch_id: int | None) -> None:
    """Refuse what the gate would refuse once it is done.

    Raises:
        GateRefusedError: TIDE-CKPT-075.
    """
    # What was changed since, and could be acknowledged, the verb's own plan tells.
    meant = replace(facts, accepted=declared_now(facts))
    refusal = next((finding for finding in examine(meant) if finding.severity == "error"), None)
    if refusal is not None:
        raise GateRefusedError(
            "TIDE-CKPT-075",
            f"The pipeline could not go on from there. Nothing was changed. {refusal.problem}",
            facts={"batch_id": batch_id, "cause": refusal.finding_id, **refusal.facts},
            fix=f"choose another batch, or see the runbook {refusal.runbook}: {refusal.fix}",
            runbook="rewind",
        )


def declared_now(facts: CheckpointFacts) -> Accepted:
    """The declaration as it is now, as accepted by a request."""
    return Accepted(shape=facts.declared.shape, code=facts.declared.code)


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
        fix="choose a batch that is held, restore a backup that holds it, or start over: "
        f"tidemill checkpoint reset {pipeline.name} --from earliest",
        runbook="rewind",
    )


def _taken_back(pipeline: Pipeline, live: Current | None, ways: Mapping[str, Way]) -> ReadSince | None:
    """What the live generation has read for the rows that go.

    One that has written nothing yet, as after a rewind, has the batches that it was copied with.
    """
    entries = (commit.entry for way in ways.values() for commit in way.undo.batches)
    if live is None:
        return None
    mine = (entry for entry in entries if entry is not None and entry.generation == live.generation)
    numbers = [entry.batch_id for entry in mine if entry.batch_id is not None]
    path = pipeline.layout.checkpoint(pipeline.name, live.generation)
    return _read_since(pipeline, CheckpointReader(Store(pipeline.layout.root), path), numbers)


def _read_since(pipeline: Pipeline, reader: CheckpointReader, numbers: Iterable[int]) -> ReadSince | None:
    # Only of files does nothing but the checkpoint tell what was read. It may be torn, and a verb is to mend
    # that: it is not asked where the source or the ledger tells.
    files = any(stream.spec.source.files is not None for stream in pipeline.streams.values())
    last = max(numbers, default=max(reader.commit_ids, default=None) if files else None)
    if last is None:
        return None
    try:
        reader.offsets(last)
    except GateRefusedError as error:
        if not files:
            return None
        raise GateRefusedError(
            error.error_id,
            "The newest batch is torn, so it is not known which files to read again. Nothing was changed.",
            facts=error.facts,
            fix=f"tidemill checkpoint repair {pipeline.name}; then run the same command again",
            runbook="checkpoint-damaged",
        ) from error
    return ReadSince(reader, last)
