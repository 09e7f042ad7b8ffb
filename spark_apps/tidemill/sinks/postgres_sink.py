"""Write rows to a PostgreSQL table by key, each batch in one transaction with its number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidemill.errors import DataError, SpecError, TidemillError, UnavailableError
from tidemill.sinks.batch_commit import BatchCommit, StepDone
from tidemill.sinks.batch_token import MARKER_TABLE, BatchToken
from tidemill.sinks.postgres_columns import DatabaseColumn, DatabaseTable, misfits, natural_type, text_of
from tidemill.sinks.postgres_sql import (
    COLUMNS,
    KEYS,
    ONE_AT_A_TIME,
    SESSION,
    BatchSql,
    create_marks,
    create_table,
    marks_of,
    quoted_table,
)
from tidemill.spec.column_names import quoted
from tidemill.spec.project import Pipeline
from tidemill.spec.secret_mask import mask_secrets, remember_secret
from tidemill.spec.secret_value import read_secret
from tidemill.spec.sinks import PostgresSink

# libpq settings that the connection string can override. In seconds, the last one in milliseconds. If a
# server vanishes, the batch fails and is repeated long before a driver counts as hung (15 minutes).
CONNECTION = {"connect_timeout": "10", "keepalives_idle": "30", "tcp_user_timeout": "120000"}

# "Read-only transaction": a standby reports this until it has taken over.
_STANDBY = "25006"


def _passes(error: psycopg.Error) -> bool:
    """Return True if the same batch may succeed later; only two drivers at once violate the marks' rules."""
    is_lost = isinstance(error, psycopg.OperationalError) or error.sqlstate == _STANDBY
    return is_lost or (isinstance(error, psycopg.IntegrityError) and error.diag.table_name == MARKER_TABLE)


class PostgresTable:
    """One table of a database, written by one output.

    Args:
        pipeline: Pipeline of the output.
        sink: Its declaration.
        rows: Columns of the rows.
        step_done: Called with `database_written` before the commit, and `database_committed` after it.
    """

    def __init__(self, pipeline: Pipeline, sink: PostgresSink, rows: pa.Schema, step_done: StepDone) -> None:
        self._pipeline = pipeline
        self._sink = sink
        every = from_arrow_schema(rows, prefer_timestamp_ntz=True)
        self._rows = StructType([field for field in every if field.name not in sink.except_columns])
        self._step_done = step_done
        self._types: dict[str, str] = {}
        self._sql = BatchSql(
            sink.table, tuple(self._rows.names), tuple(sink.key), sink.delete_where is not None
        )

    def check(self) -> None:
        """Compare the rows with the table.

        Raises:
            UnavailableError: TIDE-SINK-015, if the database does not answer.
            DataError: TIDE-SINK-016, if the rows do not fit into the table; -018, if the database refuses.
        """
        with self._connection() as connection:
            table = self._look(connection)
        found = list(misfits(self._rows, self._sink.key, table))
        if found:
            raise self._misfit(table, found)
        self._types = {column.name: column.type for column in table.columns}

    def make_marks(self) -> None:
        """Create the table for the numbers of batches unless it exists.

        Raises:
            UnavailableError, DataError: As `check`.
        """
        with self._connection() as connection:
            connection.execute(ONE_AT_A_TIME)
            marks = marks_of(self._sink.table)
            if connection.execute("SELECT to_regclass(%s)", [marks]).fetchone() == (None,):
                connection.execute(create_marks(self._sink.table))
            connection.commit()

    def _look(self, connection: psycopg.Connection) -> DatabaseTable:
        name = [quoted_table(self._sink.table)]
        columns = tuple(DatabaseColumn(*found) for found in connection.execute(COLUMNS, name))
        keys = frozenset(frozenset(found) for (found,) in connection.execute(KEYS, name))
        return DatabaseTable(columns, keys)

    def as_text(self, frame: DataFrame) -> DataFrame:
        """Return the rows with each value as the text that the database reads; Spark's tasks compute it."""
        texts = [text_of(quoted(field.name), field.dataType, self._types[field.name]) for field in self._rows]
        if self._sink.delete_where is not None:
            texts.append(f"string(coalesce(({self._sink.delete_where}), false))")
        # Named by position: a condition may name any column, and no text replaces a column.
        return frame.selectExpr(*(f"{text} AS c{place}" for place, text in enumerate(texts)))

    def write(self, texts: DataFrame, commit: BatchCommit) -> int:
        """Write a batch, unless the database has it; return the number of written rows.

        1. Refuse a database that lacks an earlier batch, because those rows would stay missing.
        2. Mark the batch as done. This waits for another driver's transaction that marks it.
        3. Copy the rows into a table of this transaction, partition by partition, and check their keys.
        4. Delete, insert and replace.
        5. Commit all of it, or nothing.

        Raises:
            UnavailableError: TIDE-SINK-015, if the database does not answer; the batch is repeated later.
            DataError: TIDE-SINK-017, if the keys do not distinguish the rows; -018, if the database refuses
                the rows; -019, if it lacks a batch.
        """
        token = BatchToken.of(commit)
        marks = marks_of(self._sink.table)
        with self._connection() as connection:
            # 1.
            self._check_not_behind(connection, token)
            written = 0
            # 2.
            with token.once(connection, marks) as is_new:
                if is_new:
                    # 3., 4.
                    written = self._put(connection, texts)
                    self._step_done("database_written")
            # 5.
            self._step_done("database_committed")
        return written

    def _put(self, connection: psycopg.Connection, texts: DataFrame) -> int:
        connection.execute(self._sql.stage)
        count = 0
        with connection.cursor() as cursor, cursor.copy(self._sql.copy) as copy:
            # Only one partition at a time is in the driver's memory.
            for row in texts.toLocalIterator():
                copy.write_row(row)
                count += 1
        without, repeated = connection.execute(self._sql.count_bad_keys).fetchone() or (0, 0)
        if without or repeated:
            raise DataError(
                "TIDE-SINK-017",
                "The keys of a batch do not tell its rows apart. The database has nothing of it.",
                facts=self._facts(key=", ".join(self._sink.key), null_keys=without, repeated_keys=repeated),
                fix="give the sink a `transform` that keeps one row of each key, such as the newest, and a "
                "`where` without null keys; or declare the columns that identify a row",
            )
        if self._sql.deletes:
            connection.execute(self._sql.delete)
        connection.execute(self._sql.upsert)
        return count

    def _check_not_behind(self, connection: psycopg.Connection, token: BatchToken) -> None:
        marks = marks_of(self._sink.table)
        query = f"SELECT batch_id FROM {marks} WHERE stream = %s"  # noqa: S608  # the name is quoted
        found = connection.execute(query, [token.stream]).fetchone()
        if found is not None and found[0] < token.batch_id - 1:
            raise DataError(
                "TIDE-SINK-019",
                "The database is older than the checkpoint: it was restored, or a standby without the newest "
                "commits took over. Nothing was written there.",
                facts=self._facts(batch_id=token.batch_id, database_batch=found[0], stream=token.stream),
                fix=f"tidemill checkpoint rewind {self._pipeline.name} --to {found[0]}, which reads again "
                f"what is missing; or, to go on without it, delete the row of this stream from {marks}",
            )

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection]:
        """Open a transaction that is rolled back unless the caller commits; convert database errors."""
        try:
            # Do not use psycopg's own `with` block, which would commit.
            with closing(self._connect()) as connection:
                for statement in SESSION:
                    connection.execute(statement)
                yield connection
        except psycopg.Error as error:
            # Without the cause, because PostgreSQL's messages quote values.
            raise self._refused(error) from None

    def _connect(self) -> psycopg.Connection:
        secret = read_secret(self._pipeline.environment, self._sink.connection)
        try:
            declared = conninfo_to_dict(secret)
        except psycopg.ProgrammingError:
            raise SpecError(
                "TIDE-SPEC-071",
                "The connection string of a database cannot be read.",
                facts={"pipeline": self._pipeline.name, "secret": self._sink.connection},
                fix="postgresql://user:password@host:5432/database?sslmode=verify-full, with %-escapes in "
                "the password; or host=… dbname=… user=… password='…'",
            ) from None
        if password := declared.get("password"):
            remember_secret(str(password))
        chosen: dict[str, Any] = {
            **CONNECTION,
            "application_name": f"tidemill {self._pipeline.name}",
            **{name: value for name, value in declared.items() if value is not None},
        }
        return psycopg.connect(**chosen)

    def _refused(self, error: psycopg.Error) -> TidemillError:
        if _passes(error):
            reason = mask_secrets(str(error).strip().partition("\n")[0])
            return UnavailableError(
                "TIDE-SINK-015",
                "What a sink writes to does not answer.",
                facts=self._facts(reason=f"{type(error).__name__}: {reason}"),
                fix="see to the database; the batch is repeated, and its rows are there once",
            )
        named = {
            "constraint": error.diag.constraint_name,
            "column": error.diag.column_name,
            "statement": "COPY" if (error.diag.context or "").startswith("COPY") else None,
        }
        return DataError(
            "TIDE-SINK-018",
            "The database refuses the rows of a batch, or the right to write them. It has nothing of it.",
            facts=self._facts(
                reason=type(error).__name__,
                sqlstate=error.sqlstate or "none",
                **{name: value for name, value in named.items() if value},
            ),
            fix="see PostgreSQL's log for the row; then correct the table, its constraint or the sink's "
            "`transform`. The user needs SELECT, INSERT, UPDATE and DELETE on the table and on "
            "tidemill_batches in its schema, and TEMPORARY on the database",
        )

    def _misfit(self, table: DatabaseTable, found: list[str]) -> DataError:
        wanted = [(field.name, natural_type(field.dataType)) for field in self._rows]
        shown = create_table(self._sink.table, [each for each in wanted if each[1]], self._sink.key)
        return DataError(
            "TIDE-SINK-016",
            "The rows do not fit into a table of the database. Nothing was written."
            if table.columns
            else "A table of the database does not exist. Nothing was written.",
            facts=self._facts(found="; ".join(found) if table.columns else "nothing by this name"),
            fix=f"alter the table, or select other columns in the sink's `transform`. To make one: {shown}",
        )

    def _facts(self, **more: object) -> dict[str, object]:
        of_sink = {"connection": self._sink.connection, "table": self._sink.table}
        return {"pipeline": self._pipeline.name, **of_sink, **more}
