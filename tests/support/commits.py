"""Batches as a driver hands them to a writer: identity and ledger entry."""

from __future__ import annotations

from tidemill.ledger.entry import Code, LedgerEntry, OffsetRange
from tidemill.names import transaction_id
from tidemill.sinks.batch_commit import BatchCommit

TABLE = "bronze/orders"
CODE = Code(tidemill="0", digest="d", spec="s")


def commit_of(batch_id: int, driver: str = "driver-1", pipeline: str = "orders") -> BatchCommit:
    """One batch of a pipeline; two drivers' entries of it differ, as in life."""
    entry = LedgerEntry(
        pipeline=pipeline,
        output=TABLE,
        mode="stream",
        run_id=driver,
        generation="g0001",
        query_id="2f1c",
        epoch=1,
        batch_id=batch_id,
        sources={
            "source": OffsetRange(
                start={"orders": {"0": 10 * batch_id}}, end={"orders": {"0": 10 * (batch_id + 1)}}
            )
        },
        code=CODE,
    )
    return BatchCommit(transaction_id(pipeline, "g0001", TABLE), batch_id, entry)
