"""The identity of a batch for user code, which can use it to write each batch once in another system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tidemill.sinks.batch_commit import BatchCommit

# Table in the target database with the newest committed batch of each stream.
MARKER_TABLE = "tidemill_batches"
MARKER_COLUMNS = "(stream varchar(400) PRIMARY KEY, batch_id bigint NOT NULL)"


@dataclass(frozen=True)
class BatchToken:
    """The identity of a batch: the same for each repetition, and never the same for other rows.

    Args:
        pipeline: Name of the pipeline.
        generation: Generation of its checkpoint; a rewind, reset or restore makes another one.
        checkpoint: Id of the checkpoint's query.
        batch_id: Number of the batch in that checkpoint; batches come in order, and the newest may be
            repeated.
        stream: Text of everything except the number, including the sink.
    """

    pipeline: str
    generation: str
    checkpoint: str
    batch_id: int
    stream: str

    @classmethod
    def of(cls, commit: BatchCommit) -> BatchToken:
        """Return the token of one output's part of a batch."""
        entry = commit.entry
        checkpoint = entry.query_id or ""
        # Include the checkpoint's own id, because a new checkpoint counts its batches from zero again.
        stream = f"{commit.app_id}:{checkpoint}"
        return cls(entry.pipeline, entry.generation or "", checkpoint, commit.batch_id, stream)

    @contextmanager
    def once(self, connection: Any, marks: str | None = None) -> Iterator[bool]:
        """Open one transaction for the rows of the batch and for the mark that they are written.

        1. Mark the batch as done. This waits for another driver's transaction that marks it.
        2. The caller writes the rows if the result is True.
        3. Commit both, or neither.

        Args:
            connection: Exclusive PEP 249 connection to a database (psycopg2, sqlite3, …), without autocommit.
                It is committed or rolled back, but not closed.
            marks: Existing table of the marks, as written in SQL; by default `tidemill_batches`, which is
                created.

        Yields:
            True if the rows are to be written, False if an earlier attempt has committed them.

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
        # Literals, because drivers differ in how they write parameters. All parts are Tidemill's own names.
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
