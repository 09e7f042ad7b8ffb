"""May this code finish a batch that an earlier driver has begun? Pure.

A repeated batch gives the same rows only if the same code makes them. If part of it is written (some tables,
or the rejected records) and part is not (another table, a topic, state), other code would decide anew: a
record that the old schema rejected and the new one accepts would be in two places or in none. So a batch is
finished by the code that began it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import Code, LedgerEntry


def check_same_code(entry: LedgerEntry, held: Mapping[str, LedgerEntry], left: Sequence[str]) -> None:
    """Refuse to finish a batch that other code has begun.

    Args:
        entry: Of the batch, as this driver would write it.
        held: Entries of the batch that are committed, by output.
        left: What is still to be written.

    Raises:
        GateRefusedError: TIDE-SINK-007.
    """
    others = {name: found.code for name, found in held.items() if not _decides_alike(found.code, entry.code)}
    if not others or not left:
        return
    began = next(iter(others.values()))
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
        },
        fix=_way_out(entry),
        runbook="half-written-batch",
    )


def _decides_alike(began: Code, now: Code) -> bool:
    """Entries of before rules were digested do not tell: those batches are finished as they always were."""
    return not began.rules or (began.tidemill, began.rules) == (now.tidemill, now.rules)


def _way_out(entry: LedgerEntry) -> str:
    old = "put the old transform, schema and declaration back for one start, which finishes the batch"
    if not entry.batch_id:
        return old
    return f"{old}; or tidemill checkpoint rewind {entry.pipeline} --to {entry.batch_id - 1}"
