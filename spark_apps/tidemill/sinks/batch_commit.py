"""A writer's batch commit, its staged form, and its result."""

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

# Called with a step's name when the step is done. Tests pass one that raises, to simulate a crash there.
StepDone = Callable[[str], None]


def nothing_more(_: str) -> None:
    """Do nothing: the step observer of production."""


@dataclass(frozen=True)
class BatchCommit:
    """The identity of one batch's write, and its ledger entry.

    Args:
        app_id: Delta's `txnAppId`: `<pipeline>:<generation>:<output>`.
        batch_id: Delta's `txnVersion`.
        entry: Ledger entry of the same commit.
    """

    app_id: str
    batch_id: int
    entry: LedgerEntry

    @classmethod
    def of(cls, entry: LedgerEntry, output: str) -> Self:
        """Return the commit of one output's part of a batch."""
        if entry.batch_id is None:
            raise ValueError("a batch of a stream has a number")
        app_id = transaction_id(entry.pipeline, entry.generation or "", output)
        return cls(app_id, entry.batch_id, entry.model_copy(update={"output": output}))

    def adding(self, columns: tuple[str, ...]) -> Self:
        """Return the same commit with columns that it adds to the table."""
        return replace(self, entry=self.entry.model_copy(update={"columns_added": columns or None}))


@dataclass(frozen=True)
class Written:
    """The result of a writer.

    Args:
        committed: False if this batch was already in the table and nothing was written.
        rows: Rows written; None if the writer does not count.
        version: A table version that has the commit, the first one if no other writer committed; None if
            nothing was committed.
    """

    committed: bool
    rows: int | None = None
    version: int | None = None


# Commits a staged batch, unless the output already has the batch.
Staged = Callable[[BatchCommit], Written]


class TableWriter(Protocol):
    """Writes one output of a pipeline to one Delta table, each batch exactly once.

    All writers promise the same. After a commit, the batch is in the table once, even if an earlier call that
    crashed or a racing driver has written it. Data, transaction version, ledger entry and new columns are in
    one commit. A table whose columns do not fit those of the frame is refused before anything is written.
    """

    @property
    def log(self) -> TableLog:
        """Return the table's log, which shows if a batch is committed."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """Return the columns that the writer was made for."""

    @property
    def passes(self) -> int:
        """Return how often staging and committing read all rows."""

    @property
    def reads_when_staging(self) -> bool:
        """Return True if staging reads all rows."""

    def check(self) -> None:
        """Raise an error if the table has other columns, before a query starts."""

    def stage(self, frame: DataFrame) -> Staged:
        """Stage these rows for a commit; they belong to no version yet.

        Creates the table and refuses other columns. The returned function raises as `TableLog.look` does.
        """
