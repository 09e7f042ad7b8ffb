"""G4: check that the checkpoint, the ledger and the transactions of every table agree."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import CheckpointFacts, TableFacts
from tidemill.ledger.table_restore import CLOSED


def agreement(facts: CheckpointFacts) -> Iterator[Finding]:
    """Compare the batches and offsets of the checkpoint with those of each table."""
    yield from _unreadable(facts)
    for table, found in facts.tables.items():
        yield from _first_start(facts, table, found)
        yield from _base(facts, table, found) if facts.base is not None and not found.begun else ()
        yield from _sink(facts, table, found)
    yield from _asides(facts)
    yield from _driver(facts)
    for table, found in facts.all_tables().items():
        yield from _hole(facts, table, found)
        yield from _skipped(facts, table, found)
    for stream in facts.each_stream():
        for table, found in stream.all_tables().items():
            yield from _offsets(stream, table, found)


def _unreadable(facts: CheckpointFacts) -> Iterator[Finding]:
    for table, found in facts.all_tables().items():
        if found.unreadable is not None:
            yield facts.error(
                "TIDE-CKPT-091",
                "The table's log cannot be read: commits are missing or damaged. "
                "Spark would fail, or write on top of an older version.",
                facts.about(table=table, reason=found.unreadable),
                "bring the log's files back; or move the damaged newest ones aside, then "
                f"tidemill checkpoint restore {facts.pipeline} BACKUP",
                runbook="table-log-damaged",
            )


def _first_start(facts: CheckpointFacts, table: str, found: TableFacts) -> Iterator[Finding]:
    if facts.committed is not None or facts.base is not None or found.backfilled_to is None:
        return
    fix = "name the offsets where the backfills ended as `starting_offsets` in the pipeline file"
    if not found.backfilled_to:
        fix = "give the pipeline a new table: no offset says where the records of windows or times end"
    elif facts.source.initial is not None:
        # A fenced driver has already begun the checkpoint, so changed `starting_offsets` have no effect any
        # more.
        ended = json.dumps(found.backfilled_to)
        fix = (
            f"tidemill checkpoint reset {facts.pipeline} --from '{ended}', which is where the backfills ended"
        )
    yield facts.error(
        "TIDE-CKPT-009",
        "A backfill has filled the table, and the pipeline has written nothing to it live. "
        "Spark would read from the beginning and append the same rows again.",
        facts.about(table=table, backfilled_to=found.backfilled_to),
        fix,
        runbook="backfill",
    )


def _base(facts: CheckpointFacts, table: str, found: TableFacts) -> Iterator[Finding]:
    """Check that each table is the one with which the generation began, and has its first commit."""
    tables = {} if facts.base is None else facts.base.tables
    if table not in tables:
        yield _added(facts, table)
    elif (was := tables[table]) is None:
        return
    elif was.id != found.table_id:
        yield _ahead(facts, table, found, "it was dropped or made anew since that generation was made")
    elif found.log_from is not None and found.log_from <= was.version:
        yield _ahead(facts, table, found, "it was brought back by hand since that generation was made")


def _sink(facts: CheckpointFacts, table: str, found: TableFacts) -> Iterator[Finding]:
    """Compare the newest batch of a table with `commits/`.

    After a crash, the table may be one batch ahead, and Spark repeats that batch. The table may never be more
    than one batch ahead, and never behind.
    """
    committed = _number(facts.committed)
    last = _number(found.last_batch)
    if last > committed + 1 or (last > committed and last > _number(facts.planned)):
        yield _behind(facts, table, found)
    elif last < committed and _was_added(facts, table, found):
        yield _added(facts, table)
    elif last < committed:
        yield _ahead(facts, table, found, f"batches {last + 1}-{committed} are not in it")


def _asides(facts: CheckpointFacts) -> Iterator[Finding]:
    """Check the tables of rejected and late records; they skip many batches, so they are never behind."""
    for table, found in facts.asides.items():
        last = _number(found.last_batch)
        if last > _number(facts.committed) + 1 or last > _number(facts.planned):
            yield _behind(facts, table, found)


def _driver(facts: CheckpointFacts) -> Iterator[Finding]:
    """Compare with the batches that drivers have reported; without tables there is nothing else."""
    if facts.tables:
        return
    status = facts.last_driver
    spoken = status.batch_id if status is not None and status.generation == facts.generation else None
    told = max(_number(spoken), _number(facts.told_batch))
    if told > _number(facts.planned):
        yield facts.error(
            "TIDE-CKPT-004",
            "The checkpoint is older than what drivers have told of it. "
            "Spark would send batches again that were sent.",
            facts.about(checkpoint_batch=facts.committed, told_batch=told),
            f"tidemill checkpoint restore {facts.pipeline} BACKUP",
            runbook="checkpoint-behind-table",
        )


def _hole(facts: CheckpointFacts, table: str, found: TableFacts) -> Iterator[Finding]:
    if found.hole:
        yield facts.error(
            "TIDE-CKPT-092",
            "The table was restored to an older version by hand while its pipeline ran, and batches were "
            "written on top. Those that were taken back would be missing for ever.",
            facts.about(table=table, table_batch=found.last_batch, because=found.hole),
            f"tidemill checkpoint rewind {facts.pipeline} --to BATCH, with the newest batch before the gap",
            runbook="checkpoint-ahead-of-table",
        )


def _skipped(facts: CheckpointFacts, table: str, found: TableFacts) -> Iterator[Finding]:
    """Find a transaction that is newer than the rows: RESTORE undoes rows but keeps the transaction."""
    last, transaction = _number(found.last_batch), _number(found.transaction)
    if transaction == CLOSED:
        yield facts.error(
            "TIDE-CKPT-018",
            "A verb that was given up half-way has closed the table to this generation. Delta would silently "
            "skip all that it writes.",
            facts.about(table=table, table_batch=found.last_batch, transaction=found.transaction),
            f"tidemill checkpoint rewind {facts.pipeline} --to {last}, for a new generation",
            runbook="checkpoint-ahead-of-table",
        )
    elif transaction > last:
        yield facts.error(
            "TIDE-CKPT-018",
            "The table was restored to an older version by hand, and Delta still holds the batches that were "
            f"taken back for written. It would silently skip batches {last + 1}-{transaction}.",
            facts.about(table=table, table_batch=found.last_batch, transaction=found.transaction),
            f"{_back_to(facts, last)}, for table, offsets and state together",
            runbook="checkpoint-ahead-of-table",
        )


def _offsets(facts: CheckpointFacts, table: str, found: TableFacts) -> Iterator[Finding]:
    """Compare offsets: Spark's own files are not exclusive, so a fenced driver can have overwritten one."""
    for batch_id, ends in found.ends.items():
        # A stream that is used several times has one end per use, and these may differ; see `changes`.
        planned, end = facts.end_of(batch_id), next(iter(ends.values()), None)
        if batch_id in facts.planned_batches and planned != end:
            yield facts.error(
                "TIDE-CKPT-017",
                "The checkpoint names other offsets for a batch than those that were written. "
                "Spark would go on from them and skip or repeat records.",
                facts.about(table=table, file=f"offsets/{batch_id}", checkpoint=planned, ledger=end),
                f"tidemill checkpoint repair {facts.pipeline}, which writes the file anew from the ledger",
                runbook="checkpoint-offsets-differ",
            )


def _was_added(facts: CheckpointFacts, table: str, found: TableFacts) -> bool:
    """Return True if the other tables' newest batch was declared without this table."""
    shapes = [other.shape for other in facts.tables.values() if other.shape is not None]
    return not found.traced and any(table not in shape.tables for shape in shapes)


def _added(facts: CheckpointFacts, table: str) -> Finding:
    return facts.error(
        "TIDE-CKPT-028",
        "A sink was added to a pipeline that has run. "
        f"Spark would fill it from batch {_number(facts.committed) + 1} on, without all before.",
        facts.about(table=table, checkpoint_batch=facts.committed),
        "declare it in a pipeline of its own, which starts with its own checkpoint",
        runbook="sink-added",
    )


def _behind(facts: CheckpointFacts, table: str, found: TableFacts) -> Finding:
    committed, last = _number(facts.committed), _number(found.last_batch)
    back = f"tidemill checkpoint rewind {facts.pipeline} --to {committed}, or " if committed >= 0 else ""
    return facts.error(
        "TIDE-CKPT-004",
        f"The checkpoint is older than the table. Spark would silently skip batches {committed + 1}-{last}.",
        facts.about(table=table, checkpoint_batch=facts.committed, table_batch=found.last_batch),
        f"put the newer checkpoint back, or {back}tidemill checkpoint restore {facts.pipeline} BACKUP",
        runbook="checkpoint-behind-table",
    )


def _ahead(facts: CheckpointFacts, table: str, found: TableFacts, because: str) -> Finding:
    last = _number(found.last_batch)
    return facts.error(
        "TIDE-CKPT-005",
        "The table is older than the checkpoint. "
        f"Spark would go on after batch {facts.committed}, and what came before would be missing.",
        facts.about(
            table=table, checkpoint_batch=facts.committed, table_batch=found.last_batch, because=because
        ),
        f"bring the table back, or {_back_to(facts, last)}",
        runbook="checkpoint-ahead-of-table",
    )


def _back_to(facts: CheckpointFacts, last: int) -> str:
    """Return the operation that takes the pipeline back to the newest batch that a table has."""
    if last < 0:
        return f"tidemill checkpoint reset {facts.pipeline} --from earliest"
    return f"tidemill checkpoint rewind {facts.pipeline} --to {last}"


def _number(batch_id: int | None) -> int:
    """Return the batch id as a comparable number: -1 before the first batch."""
    return -1 if batch_id is None else batch_id
