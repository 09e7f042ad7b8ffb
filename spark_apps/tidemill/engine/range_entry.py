"""The ledger entry of a range that is processed again."""

from __future__ import annotations

from tidemill.backfill.plan import BackfillPlan
from tidemill.engine.run_context import RunContext
from tidemill.ledger.entry import LedgerEntry, OffsetRange, Positions
from tidemill.names import SOURCE_NAME

# Plans for which the ledger entry names the offsets. Windows and times do not define where the range ends in
# the topic.
_BY_RECORDS = ("record", "everything")


def range_entry(
    run: RunContext, plan: BackfillPlan, output: str, read: tuple[Positions | None, Positions | None]
) -> LedgerEntry:
    """Return the ledger entry of a range before anything is computed.

    Args:
        run: The run.
        plan: The plan, or one of its chunks.
        output: A table, or one of `ASIDE_OUTPUTS`.
        read: First and end offsets of its records.
    """
    start, end = read
    return LedgerEntry(
        pipeline=run.pipeline.name,
        output=output,
        mode="backfill",
        run_id=run.run_id,
        plan=plan.digest,
        chunk=plan.number,
        sources={SOURCE_NAME: OffsetRange(start=start, end=end)} if plan.by in _BY_RECORDS else {},
        code=run.code,
    )
