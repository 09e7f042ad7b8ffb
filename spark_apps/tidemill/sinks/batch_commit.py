"""What a writer is asked to commit, what it makes ready before, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self

from tidemill.ledger.entry import LedgerEntry
from tidemill.names import transaction_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tidemill.sinks.table_log import TableLog

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

    @classmethod
    def of(cls, entry: LedgerEntry, output: str) -> Self:
        """The commit of one output's part of a batch."""
        if entry.batch_id is None:
            raise ValueError("a batch of a stream has a number")
        app_id = transaction_id(entry.pipeline, entry.generation or "", output)
        return cls(app_id, entry.batch_id, entry.model_copy(update={"output": output}))

    def adding(self, columns: tuple[str, ...]) -> Self:
        """The same commit, which adds columns to the table."""
        return replace(self, entry=self.entry.model_copy(update={"columns_added": columns or None}))


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


# Commits what was made ready of a batch, unless the output holds the batch by now.
Staged = Callable[[BatchCommit], Written]


class TableWriter(Protocol):
    """Writes one output of a pipeline to one Delta table, each batch exactly once.

    All writers promise the same: after a commit the batch is in the table once, whether or not this
    call, an earlier one that crashed, or a racing driver put it there; data, transaction version and
    ledger entry are in one commit, and so are columns that it adds to the table; a table whose columns do not
    fit those of the frame is refused before anything is written.
    """

    @property
    def log(self) -> TableLog:
        """The table's log, which tells whether a batch is there."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns that the writer was made for."""

    @property
    def passes(self) -> int:
        """How often staging and committing read all rows."""

    @property
    def reads_when_staging(self) -> bool:
        """Whether staging reads all rows."""

    def check(self) -> None:
        """Refuse a table with other columns, before a query starts."""

    def stage(self, frame: DataFrame) -> Staged:
        """Make ready what a commit of these rows needs: belongs to no version yet.

        Makes the table and refuses other columns. The returned function raises as `TableLog.look` does.
        """
