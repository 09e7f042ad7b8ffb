"""Find out if a table already has a batch, before it is written. Pure.

The transaction version alone proves little. A RESTORE keeps it, an operation closes it, a table property
expires it, and it does not show which records the batch was made of. The ledger entry does.

| transaction of the id          | newest valid entry of the id        | result                      |
|--------------------------------|-------------------------------------|-----------------------------|
| none, or of an earlier batch   | none, or of an earlier batch        | the batch is written        |
| of this batch, or expired      | of this batch: same query, offsets  | the batch exists            |
| of this batch, or expired      | of this batch: other query, offsets | TIDE-RUN-004, fenced        |
| of a later batch, or expired   | of a later batch                    | TIDE-RUN-004, fenced        |
| closed                         | any                                 | TIDE-RUN-003, fenced        |
| of this batch                  | none, or of an earlier batch        | TIDE-SINK-006, undone       |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.errors import FencedError, GateRefusedError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit
from tidemill.ledger.standing import standing_commits
from tidemill.ledger.table_restore import CLOSED
from tidemill.names import transaction_id
from tidemill.sinks.batch_commit import BatchCommit


def newest_own(newest_first: Iterable[Commit], wanted: BatchCommit) -> Commit | None:
    """Return the newest valid commit of the batch's transaction id; None if there is none."""
    return next((commit for commit in standing_commits(newest_first) if _is_of(commit, wanted)), None)


def stands(newest_first: Iterable[Commit], written: BatchCommit) -> bool:
    """Return True if the commit of a batch is still in the table."""
    return any(
        commit.entry is not None and commit.entry.batch_id == written.batch_id
        for commit in standing_commits(newest_first)
        if _is_of(commit, written)
    )


def check_transaction(table: str, transaction: int | None, wanted: BatchCommit) -> None:
    """Raise an error if the transaction version alone forbids the write.

    Raises:
        FencedError: TIDE-RUN-003 if an operation has closed the id, TIDE-RUN-004 if a later batch is
            committed.
    """
    if transaction == CLOSED:
        raise FencedError(
            "TIDE-RUN-003",
            "A verb has moved the pipeline to another generation and closed this one to its drivers. "
            "This driver ends, and wrote nothing of the batch.",
            facts={**_about(table, wanted), "epoch": wanted.entry.epoch},
            fix="nothing, if the verb was meant; see what it did: tidemill checkpoint inspect "
            + wanted.entry.pipeline,
            runbook="two-drivers",
        )
    if transaction is not None and transaction > wanted.batch_id:
        raise _fenced(table, wanted, {"table_batch": transaction})


def same_batch(
    table: str, transaction: int | None, newest: Commit | None, wanted: BatchCommit
) -> Commit | None:
    """Return the commit of the batch if the table has it, else None.

    Args:
        table: Path, for the facts.
        transaction: Newest batch that Delta counts as written; None if there is none, or if Delta has
            forgotten it.
        newest: Result of `newest_own`.
        wanted: The batch to write.

    Raises:
        FencedError: TIDE-RUN-004, if another driver wrote this batch or a later one.
        GateRefusedError: TIDE-SINK-006, if the batch was committed and is no longer in the table.
    """
    entry = None if newest is None else newest.entry
    found = None if entry is None else entry.batch_id
    if entry is None or found is None or found < wanted.batch_id:
        if transaction == wanted.batch_id:
            raise taken_back(table, wanted)
        return None
    if found > wanted.batch_id or _identity(entry) != _identity(wanted.entry):
        raise _fenced(table, wanted, _differences(entry, wanted.entry))
    return newest


def taken_back(table: str, wanted: BatchCommit) -> GateRefusedError:
    """Return the error for batches that were removed from the table."""
    return GateRefusedError(
        "TIDE-SINK-006",
        "Delta holds a batch of this generation for written, but the table does not show its commit: the "
        "table was restored, dropped or made anew by hand. Nothing of this batch was written. "
        "Spark would go on, and the rows that were taken out would be missing for ever.",
        facts=_about(table, wanted),
        fix=f"see what the table holds: tidemill ledger {wanted.entry.pipeline}; bring the table back, or "
        f"take the pipeline back as well: tidemill checkpoint rewind {wanted.entry.pipeline} --to BATCH, "
        "with the newest one that was not taken back",
        runbook="checkpoint-ahead-of-table",
    )


def _fenced(table: str, wanted: BatchCommit, found: dict[str, Any]) -> FencedError:
    return FencedError(
        "TIDE-RUN-004",
        "Another driver has written this batch, or a later one, and not from what this driver would write. "
        "This driver ends, and wrote nothing of the batch.",
        facts={**_about(table, wanted), "epoch": wanted.entry.epoch, **found},
        fix=f"see who writes: tidemill ledger {wanted.entry.pipeline}; a start asks the gate, which says "
        "whether the checkpoint still fits the table",
        runbook="two-drivers",
    )


def _about(table: str, wanted: BatchCommit) -> dict[str, Any]:
    entry = wanted.entry
    return {
        "pipeline": entry.pipeline,
        "generation": entry.generation,
        "table": table,
        "batch_id": wanted.batch_id,
    }


def _is_of(commit: Commit, wanted: BatchCommit) -> bool:
    entry = commit.entry
    if entry is None or entry.batch_id is None:
        return False
    return transaction_id(entry.pipeline, entry.generation or "", entry.output) == wanted.app_id


def _identity(entry: LedgerEntry) -> dict[str, Any]:
    """Return the values in which two drivers' writes of one batch must agree: lineage and offsets."""
    offsets = {name: {"start": read.start, "end": read.end} for name, read in entry.sources.items()}
    return {"batch_id": entry.batch_id, "query_id": entry.query_id, "offsets": offsets}


def _differences(found: LedgerEntry, wanted: LedgerEntry) -> dict[str, Any]:
    theirs, ours = _identity(found), _identity(wanted)
    differing = [name for name in ours if theirs[name] != ours[name]]
    return {
        "table_run": found.run_id,
        "table_epoch": found.epoch,
        **{f"table_{name}": theirs[name] for name in differing},
        **{f"driver_{name}": ours[name] for name in differing},
    }
