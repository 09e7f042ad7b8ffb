"""Batches as a driver hands them to a writer: identity and ledger entry."""

from __future__ import annotations

from dataclasses import replace

from tidemill.ledger.entry import Code, LedgerEntry, OffsetRange
from tidemill.ledger.table_restore import TableRestore
from tidemill.sinks.batch_commit import BatchCommit

TABLE = "bronze/orders"
CODE = Code(tidemill="0", digest="d", spec="s")


def commit_of(batch_id: int, driver: str = "driver-1", pipeline: str = "orders") -> BatchCommit:
    """Return one batch of a pipeline. Entries of two drivers for it differ, as in production."""
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
    return BatchCommit.of(entry, TABLE)


def planned_otherwise(commit: BatchCommit) -> BatchCommit:
    """Return the same batch, as a driver whose `offsets/N` was overwritten would write it."""
    read = OffsetRange(start=commit.entry.sources["source"].start, end={"orders": {"0": 99}})
    return replace(commit, entry=commit.entry.model_copy(update={"sources": {"source": read}}))


def handed_over(path: object, version: int, known: int, request_id: str = "rewind-1") -> TableRestore:
    """Return an operation's restore to a version, into `g0002`, of a table whose version N + 1 is batch N."""
    commit = commit_of(version - 1)
    begun = {"mode": "base", "generation": "g0002", "query_id": request_id, "rows": 0}
    return TableRestore(str(path), version, known, commit.entry.model_copy(update=begun), (commit.app_id,))
