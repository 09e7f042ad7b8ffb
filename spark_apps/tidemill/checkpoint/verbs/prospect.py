"""Check a continuation from a batch of a checkpoint, and refuse it before anything changes."""

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

# Asks the broker. If the broker does not answer, returns the facts unchanged and the reason.
AskBroker = Callable[[CheckpointFacts, Pipeline], tuple[CheckpointFacts, str]]


@dataclass(frozen=True)
class Origin:
    """The checkpoint to continue from.

    Args:
        reader: Its files.
        generation: Its name.
        side: Generations whose batches lead to it.
        tables: Ids that the pipeline's tables must have, if they are known.
    """

    reader: CheckpointReader
    generation: str
    side: Side
    tables: Mapping[str, str | None]


@dataclass(frozen=True)
class Prospect:
    """A continuation from a batch that passed all checks.

    Args:
        pipeline: Pipeline that continues.
        origin: Checkpoint to continue from.
        live: Record of the live generation; None if the pipeline never ran.
        batch_id: Last batch that stays.
        ways: The way to bring each table to that batch.
        facts: Facts of the future checkpoint.
        unanswered: Reason why no broker was asked for the next records; empty if one was asked.
    """

    pipeline: Pipeline
    origin: Origin
    live: Current | None
    batch_id: int
    ways: Mapping[str, Way]
    facts: CheckpointFacts
    unanswered: str = ""


def origin_of(store: Store, pipeline: Pipeline, record: Current) -> Origin:
    """Return a generation of the pipeline as an origin."""
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
    """Check everything that must hold, before anything changes.

    Raises:
        GateRefusedError: TIDE-CKPT-070 if the checkpoint does not have the batch; -075 if the gate would
            refuse to continue from it, because state or input is gone or the declaration was changed; as
            `ways_to`.
    """
    _check_held(pipeline, origin, batch_id)
    left = None if live is None else tuple(live.side.limits)
    ways = ways_to(pipeline, origin.side, batch_id, left, origin.tables)
    # A fork has no live generation, and it reads again the records that the original has read.
    since = _read_since(pipeline, origin.reader, ()) if live is None else _taken_back(pipeline, live, ways)
    facts = gather_cut(origin.reader, pipeline, batch_id, since)
    facts, unanswered = ask_broker(facts, pipeline)
    tables = {name: _table_facts(batch_id, way.told) for name, way in ways.items() if way.told is not None}
    known = with_meanings(origin.reader.store, pipeline, replace(facts, tables=tables))
    prospect = Prospect(pipeline, origin, live, batch_id, ways, known, unanswered)
    check_prospect(prospect.facts, batch_id)
    return prospect


def check_prospect(facts: CheckpointFacts, batch_id: int | None) -> None:
    """Raise an error if the gate would refuse the future checkpoint.

    Raises:
        GateRefusedError: TIDE-CKPT-075.
    """
    # The operation's own plan reports changes that an operator could acknowledge.
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
    """Return the current declaration as an accepted one."""
    return Accepted(shape=facts.declared.shape, code=facts.declared.code)


def never_ran(pipeline: str) -> UsageError:
    """Return the error of an operation that needs a checkpoint."""
    return UsageError(
        "TIDE-CKPT-076",
        "This pipeline has never run; it has no checkpoint.",
        facts={"pipeline": pipeline},
        fix=f"start it: tidemill start {pipeline}",
    )


def _table_facts(batch_id: int, told: LedgerEntry) -> TableFacts:
    """Return the facts of the future table."""
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
    """Return the records that the live generation has read for the rows to undo.

    If the live generation has written nothing yet, as after a rewind, these are the batches copied into it.
    """
    entries = (commit.entry for way in ways.values() for commit in way.undo.batches)
    if live is None:
        return None
    mine = (entry for entry in entries if entry is not None and entry.generation == live.generation)
    numbers = [entry.batch_id for entry in mine if entry.batch_id is not None]
    path = pipeline.layout.checkpoint(pipeline.name, live.generation)
    return _read_since(pipeline, CheckpointReader(Store(pipeline.layout.root), path), numbers)


def _read_since(pipeline: Pipeline, reader: CheckpointReader, numbers: Iterable[int]) -> ReadSince | None:
    # Only for a files source is the checkpoint the only record of what was read. The checkpoint may be torn,
    # and this operation may be the repair. So it is read only if neither the source nor the ledger has the
    # fact.
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
