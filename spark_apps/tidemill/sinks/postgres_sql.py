"""The SQL that writes a batch's rows to a PostgreSQL table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.sinks.batch_token import MARKER_COLUMNS, MARKER_TABLE

# The rows of the running batch; the table disappears with its transaction.
_BATCH = "pg_temp.tidemill_rows"
DELETED = "_tidemill_deleted"

# Columns by name and type, with two flags: a value is required, a value is forbidden. Without rows, the table
# does not exist.
COLUMNS = """
    SELECT attname, CASE typtype WHEN 'e' THEN 'enum' ELSE format_type(atttypid, atttypmod) END,
        attnotnull AND NOT atthasdef AND attidentity = '', attgenerated <> '' OR attidentity = 'a'
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
# Columns of each index that ON CONFLICT accepts by its columns alone.
KEYS = """
    SELECT array_agg(attname::text) FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey[0:indnkeyatts - 1])
    WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indimmediate
        AND indpred IS NULL AND indexprs IS NULL
    GROUP BY indexrelid
"""
# Prevents two drivers from creating the table of the marks at the same time.
ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('tidemill_batches'))"

# 1. A server that does not wait for its disk may lose a committed transaction.
# 2. If a driver's machine is lost, its locks stay until the server checks the connection.
SESSION = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'",
    "SELECT set_config('tcp_keepalives_idle', '30', true), "
    "set_config('tcp_keepalives_interval', '10', true), set_config('tcp_keepalives_count', '6', true)",
)


def quoted(*names: str) -> str:
    """Return any names as identifiers, separated by commas."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def quoted_table(name: str) -> str:
    """Return a table `<schema>.<name>` as an identifier."""
    return ".".join(quoted(part) for part in name.split("."))


def marks_of(table: str) -> str:
    """Return the table of the marks, in the schema of the rows' table."""
    return quoted_table(f"{table.partition('.')[0]}.{MARKER_TABLE}")


def create_marks(table: str) -> str:
    """Return the statement that creates the table of the marks."""
    return f"CREATE TABLE IF NOT EXISTS {marks_of(table)} {MARKER_COLUMNS}"


def create_table(table: str, columns: Iterable[tuple[str, str]], key: Sequence[str]) -> str:
    """Return the statement for a fitting table, to show to the user."""
    listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
    return f"CREATE TABLE {quoted_table(table)} ({listed}, PRIMARY KEY ({quoted(*key)}))"


@dataclass(frozen=True)
class BatchSql:
    """The statements of a batch.

    Args:
        table: `<schema>.<name>`.
        columns: All columns of the rows.
        key: Columns that identify a row.
        deletes: True if an additional last column marks deleted keys.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    deletes: bool

    @property
    def stage(self) -> str:
        """Return the statement for a temporary table with the table's types but not its constraints."""
        more = f", false AS {DELETED}" if self.deletes else ""
        return (
            f"CREATE TEMP TABLE tidemill_rows ON COMMIT DROP AS "  # noqa: S608  # names are quoted
            f"SELECT {quoted(*self.columns)}{more} FROM {quoted_table(self.table)} WITH NO DATA"
        )

    @property
    def copy(self) -> str:
        """Return the statement that fills the temporary table."""
        names = (*self.columns, DELETED) if self.deletes else self.columns
        return f"COPY {_BATCH} ({quoted(*names)}) FROM STDIN"

    @property
    def count_bad_keys(self) -> str:
        """Return the query for the number of rows with a null key, and the number of repeated keys."""
        null = " OR ".join(f"{quoted(name)} IS NULL" for name in self.key)
        repeated = f"SELECT FROM {_BATCH} GROUP BY {quoted(*self.key)} HAVING count(*) > 1"
        return (
            f"SELECT (SELECT count(*) FROM {_BATCH} WHERE {null}), "  # noqa: S608  # names are quoted
            f"(SELECT count(*) FROM ({repeated}) AS repeated)"
        )

    @property
    def delete(self) -> str:
        """Return the statement that deletes the rows with deleted keys."""
        same = " AND ".join(f"kept.{quoted(name)} = gone.{quoted(name)}" for name in self.key)
        table = quoted_table(self.table)
        return f"DELETE FROM {table} AS kept USING {_BATCH} AS gone WHERE gone.{DELETED} AND {same}"  # noqa: S608

    @property
    def upsert(self) -> str:
        """Return the statement that inserts rows with new keys and replaces the others."""
        names = quoted(*self.columns)
        others = [quoted(name) for name in self.columns if name not in self.key]
        replaced = ", ".join(f"{name} = excluded.{name}" for name in others)
        found = f"DO UPDATE SET {replaced}" if others else "DO NOTHING"
        kept = f" WHERE NOT {DELETED}" if self.deletes else ""
        return (
            f"INSERT INTO {quoted_table(self.table)} ({names}) SELECT {names} FROM {_BATCH}{kept} "  # noqa: S608
            f"ON CONFLICT ({quoted(*self.key)}) {found}"
        )
