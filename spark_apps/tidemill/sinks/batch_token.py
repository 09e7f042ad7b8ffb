"""What names a batch to code that writes it elsewhere, so that it can be written once there, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidemill.sinks.batch_commit import BatchCommit

# Table in the database that is written to: the newest batch that is in it, for each stream.
MARKER_TABLE = "tidemill_batches"
MARKER_COLUMNS = "(stream varchar(400) PRIMARY KEY, batch_id bigint NOT NULL)"


@dataclass(frozen=True)
class BatchToken:
    """The identity of a batch: the same whenever the batch is repeated, and never that of other rows.

    Args:
        pipeline: Whose batch.
        generation: Of its checkpoint; a rewind, reset or restore makes another one.
        checkpoint: Id of the checkpoint's query.
        batch_id: Number of the batch in that checkpoint; they come in order, and the newest may come again.
        stream: All but the number, and the sink, as one text.
    """

    pipeline: str
    generation: str
    checkpoint: str
    batch_id: int
    stream: str

    @classmethod
    def of(cls, commit: BatchCommit) -> BatchToken:
        """The token of one output's part of a batch."""
        entry = commit.entry
        checkpoint = entry.query_id or ""
        # With the checkpoint's own id: a checkpoint that was begun anew counts its batches from zero.
        stream = f"{commit.app_id}:{checkpoint}"
        return cls(entry.pipeline, entry.generation or "", checkpoint, commit.batch_id, stream)

    @contextmanager
    def once(self, connection: Any, marks: str | None = None) -> Iterator[bool]:
        """One transaction that holds the rows of the batch and the mark that they are there.

        1. Mark the batch as done, which waits for a transaction of another driver that does the same.
        2. The caller writes the rows, if it is told that they are not there yet.
        3. Commit both, or neither.

        Args:
            connection: To a database by PEP 249 (psycopg2, sqlite3, …), without autocommit, that nobody
                else uses meanwhile. It is committed or rolled back, not closed.
            marks: Table of the marks, as SQL writes it, that exists; by default `tidemill_batches`, which is
                made.

        Yields:
            Whether the rows are to be written: False if an earlier attempt committed them.

        Raises:
            ValueError: If the connection commits each statement by itself.
        """
        if getattr(connection, "autocommit", False) is True:
            raise ValueError("the connection has autocommit: mark and rows would not be one transaction")
        try:
            # 1.
            is_new = self._mark(connection, marks)
            # 2.
            yield is_new
        except BaseException:
            connection.rollback()
            raise
        # 3.
        connection.commit()

    def _mark(self, connection: Any, marks: str | None) -> bool:
        # As literals, since drivers differ in how they write parameters. All parts are names of ours.
        stream = "'" + self.stream.replace("'", "''") + "'"
        table = marks or MARKER_TABLE
        cursor = connection.cursor()
        try:
            if marks is None:
                cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} {MARKER_COLUMNS}")
            cursor.execute(
                f"INSERT INTO {table} SELECT {stream}, -1 "  # noqa: S608  # see above
                f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE stream = {stream})"
            )
            cursor.execute(
                f"UPDATE {table} SET batch_id = {self.batch_id:d} "  # noqa: S608  # see above
                f"WHERE stream = {stream} AND batch_id < {self.batch_id:d}"
            )
            return bool(cursor.rowcount == 1)
        finally:
            cursor.close()
