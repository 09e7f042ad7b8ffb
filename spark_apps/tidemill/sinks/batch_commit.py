"""What a writer is asked to commit, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidemill.ledger.entry import LedgerEntry

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# Called with a step's name when it is done; a test passes one that fails, to stand for a crash there.
StepDone = Callable[[str], None]


def nothing_more(_: str) -> None:
    """The step observer of production."""


@dataclass(frozen=True)
class BatchCommit:
    """The identity of one batch's write and its ledger entry.

    Args:
        app_id: Delta's `txnAppId`: `<pipeline>:<generation>:<output>`.
        batch_id: Delta's `txnVersion`.
        entry: Goes into the same commit.
    """

    app_id: str
    batch_id: int
    entry: LedgerEntry


@dataclass(frozen=True)
class Written:
    """The answer of a writer.

    Args:
        committed: False if this batch was already in the table; nothing was written then.
        rows: Rows written; None if the writer does not count.
        version: A table version that holds the commit, the first one if nobody else wrote; None if nothing
            was committed.
    """

    committed: bool
    rows: int | None = None
    version: int | None = None


class TableWriter(Protocol):
    """Writes one output of a pipeline to one Delta table, each batch exactly once.

    All writers promise the same: after `write` returns, the batch is in the table once, whether or
    not this call, an earlier one that crashed, or a racing driver put it there; data, transaction
    version and ledger entry are in one commit; a table whose columns are not those of the frame
    is refused before anything is written.
    """

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns that the writer was made for."""

    def write(self, frame: DataFrame, commit: BatchCommit) -> Written:
        """Write the batch unless it is already there."""
