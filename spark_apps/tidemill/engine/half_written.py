"""Rules for finishing a batch that an earlier driver has begun. Pure.

A repeated batch gives the same rows only if the same code computes them. Assume that part of a batch is
written (some tables, or the rejected records) and part is not (another table, a topic, state). Other code
would decide again. A record that the old schema rejected and the new one accepts would be in two places or in
none. So only the code that began a batch may finish it.

The same rule applies to records that are left out because the transform fails on them.

Even the same code gives other rows if a sink's transform depends on chance, time or the order of rows. If
that changes the rows for the quarantine, the batch cannot be finished either.

Joined tables and folders may also have changed. The batch is repeated with the versions and files with which
it began. If those files were deleted or changed, it cannot be finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.errors import GateRefusedError, UnavailableError
from tidemill.ledger.entry import Code, Joined, LedgerEntry
from tidemill.names import QUARANTINE_OUTPUT

# Id of the refusal of a batch that was joined with files that no longer exist.
FILES_GONE = "TIDE-JOIN-004"


@dataclass(frozen=True)
class Begun:
    """A partly written batch, and the contents of tables and folders that it was joined with."""

    batch_id: int
    joined: Joined


@dataclass(frozen=True)
class QueryStart:
    """One start of a query, which takes the newest columns of files and lists joined folders.

    Args:
        begun: Batch to finish with the contents with which it began; None for the newest contents.
        listed_for: Batch that reads the files that this start lists in joined folders, even if newer files
            arrive.
    """

    begun: Begun | None = None
    listed_for: int | None = None

    @property
    def settled_for(self) -> int | None:
        """Return the batch that is joined with what this start reads, even if there are newer contents."""
        return self.listed_for if self.begun is None else self.begun.batch_id


class StartAgainError(Exception):
    """Ends the query, which then starts again."""

    def __init__(self, start: QueryStart = QueryStart()) -> None:
        super().__init__("the query starts again with other contents of tables, folders or columns")
        self.start = start


def check_same_joined(entry: LedgerEntry, held: Mapping[str, LedgerEntry], left: Sequence[str]) -> None:
    """Check that a batch is finished with the contents of tables and folders with which it began.

    Args:
        entry: Entry of the batch, as this driver would write it.
        held: Committed entries of the batch, by output.
        left: Outputs that are not written yet.

    Raises:
        StartAgainError: If the driver must start again; it has the versions and files to read.
    """
    for found in held.values():
        if left and found.joined.differs_from(entry.joined):
            raise StartAgainError(QueryStart(Begun(entry.batch_id or 0, found.joined)))


def files_gone(pipeline: str, begun: Begun, error: UnavailableError) -> GateRefusedError:
    """Return the refusal of a batch that was joined with files that are now deleted or changed."""
    return GateRefusedError(
        FILES_GONE,
        "A driver was stopped after it had written a part of this batch, and joined files of the batch were "
        "changed or removed since. The rest would be joined with other rows. Nothing was written.",
        facts={**error.facts, "pipeline": pipeline, "batch_id": begun.batch_id},
        fix="restore the files with their modification times, and the next start finishes the batch; "
        f"or compute the batch again: {_anew(pipeline, begun.batch_id)}",
        runbook="half-written-batch",
    )


def check_same_code(entry: LedgerEntry, held: Mapping[str, LedgerEntry], left: Sequence[str]) -> None:
    """Refuse to finish a batch that other code has begun.

    Args:
        entry: Entry of the batch, as this driver would write it.
        held: Committed entries of the batch, by output.
        left: Outputs that are not written yet.

    Raises:
        GateRefusedError: TIDE-SINK-007.
    """
    others = [found for found in held.values() if not _decides_alike(found, entry)]
    if not others or not left:
        return
    began = others[0].code
    raise GateRefusedError(
        "TIDE-SINK-007",
        "A driver with other code has written a part of this batch and was stopped before the rest. "
        "The new code could accept what the old one rejected, or reject what it accepted: records of the "
        "batch would be in two places or in none. Nothing was written.",
        facts={
            "pipeline": entry.pipeline,
            "batch_id": entry.batch_id,
            "written": sorted(held),
            "left": list(left),
            "began_with": f"{began.rules} of Tidemill {began.tidemill}",
            "this_code": f"{entry.code.rules} of Tidemill {entry.code.tidemill}",
            **_schemas_told(others[0], entry),
            **_poison_told(others[0], entry),
            **_models_told(began, entry.code),
        },
        fix=_way_out(entry),
        runbook="half-written-batch",
    )


def check_same_set_aside(entry: LedgerEntry, held: Mapping[str, LedgerEntry], left: Sequence[str]) -> None:
    """Refuse to finish a batch if other rows would go to the quarantine than in the first attempt.

    A row that went to the quarantine and now stays in the table would be in both. A row that goes there only
    now would be in neither. If the quarantine holds the batch, the remaining tables are compared. If it does
    not, no row went there from the written tables, and none may go there now.

    Args:
        entry: Entry of the batch, as this driver would write it.
        held: Committed entries of the batch, by output.
        left: Outputs that are not written yet.

    Raises:
        GateRefusedError: TIDE-SINK-007.
    """
    now = entry.set_aside or {}
    # Entries from before the digests were kept do not have them; those batches are finished without the
    # check.
    began = next((found.set_aside for found in held.values() if found.set_aside is not None), now)
    asked = set(left) if QUARANTINE_OUTPUT in held else set(held)
    differing = sorted(name for name in asked & {*now, *began} if now.get(name) != began.get(name))
    if not differing or not left:
        return
    raise GateRefusedError(
        "TIDE-SINK-007",
        "A driver has written a part of this batch and was stopped before the rest, and other rows violate "
        "expectations this time: the transform of the sink gives other rows each time. "
        "Rows of the batch would be in the table and in the quarantine, or in neither. Nothing was written.",
        facts={
            "pipeline": entry.pipeline,
            "batch_id": entry.batch_id,
            "written": sorted(held),
            "left": list(left),
            "rows_differ_of": differing,
        },
        fix="let the transform of the sink depend on its rows alone, and compute the batch again: "
        + _anew(entry.pipeline, entry.batch_id),
        runbook="half-written-batch",
    )


def _decides_alike(began: LedgerEntry, now: LedgerEntry) -> bool:
    """Return True if both entries accept the same records; old entries without a digest match any rules."""
    if (began.source_schemas or now.source_schemas) != now.source_schemas:
        return False
    if began.poison_records != now.poison_records:
        return False
    code = began.code
    return not code.rules or (code.tidemill, code.rules) == (now.code.tidemill, now.code.rules)


def _schemas_told(began: LedgerEntry, now: LedgerEntry) -> dict[str, object]:
    if not now.source_schemas or began.source_schemas == now.source_schemas:
        return {}
    return {"began_with_schemas": began.source_schemas, "these_schemas": now.source_schemas}


def _poison_told(began: LedgerEntry, now: LedgerEntry) -> dict[str, object]:
    """Return the difference, which means a transform with random failures, or a changed `on_poison`."""
    if began.poison_records == now.poison_records:
        return {}
    return {"began_without": began.poison_records, "these_left_out": now.poison_records}


def _models_told(began: Code, now: Code) -> dict[str, object]:
    if began.models == now.models:
        return {}
    told = {"began_with_models": began.models, "these_models": now.models}
    return {key: {name: str(used) for name, used in (models or {}).items()} for key, models in told.items()}


def _way_out(entry: LedgerEntry) -> str:
    old = "put the old transform, schema, model and declaration back for one start, which finishes the batch"
    back = _go_back(entry.pipeline, entry.batch_id)
    return f"{old}; or {back}" if back else old


def _anew(pipeline: str, batch_id: int | None) -> str:
    restored = "RESTORE its tables to their versions before it, then"
    return _go_back(pipeline, batch_id) or f"{restored} tidemill checkpoint reset {pipeline} --from earliest"


def _go_back(pipeline: str, batch_id: int | None) -> str:
    """Return the rewind command; empty for batch 0, which has no batch before it."""
    return f"tidemill checkpoint rewind {pipeline} --to {batch_id - 1}" if batch_id else ""
