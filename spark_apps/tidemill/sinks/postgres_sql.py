"""The SQL that a batch's rows go into a PostgreSQL table by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.sinks.batch_token import MARKER_COLUMNS, MARKER_TABLE

# The rows of the running batch, gone with its transaction.
_BATCH = "pg_temp.tidemill_rows"
DELETED = "_tidemill_deleted"

# Columns by name, type, whether a value must come, whether none may. No rows: there is no such table.
COLUMNS = """
    SELECT attname, CASE typtype WHEN 'e' THEN 'enum' ELSE format_type(atttypid, atttypmod) END,
        attnotnull AND NOT atthasdef AND attidentity = '', attgenerated <> '' OR attidentity = 'a'
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
# Columns of each index that ON CONFLICT can be given without more words.
KEYS = """
    SELECT array_agg(attname::text) FROM pg_index
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey[0:indnkeyatts - 1])
    WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indimmediate
        AND indpred IS NULL AND indexprs IS NULL
    GROUP BY indexrelid
"""
# Two drivers that make the table of the marks at the same moment would be in each other's way.
ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('tidemill_batches'))"

# 1. A server that is told not to wait for its disk may forget what it has committed.
# 2. A driver that is lost with its machine holds its locks until the server asks.
SESSION = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'",
    "SELECT set_config('tcp_keepalives_idle', '30', true), "
    "set_config('tcp_keepalives_interval', '10', true), set_config('tcp_keepalives_count', '6', true)",
)


def quoted(*names: str) -> str:
    """Names as identifiers, whatever they hold, separated by commas."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def quoted_table(name: str) -> str:
    """A table `<schema>.<name>`."""
    return ".".join(quoted(part) for part in name.split("."))


def marks_of(table: str) -> str:
    """The table of the marks, beside the rows' table."""
    return quoted_table(f"{table.partition('.')[0]}.{MARKER_TABLE}")


def create_marks(table: str) -> str:
    """Make that table."""
    return f"CREATE TABLE IF NOT EXISTS {marks_of(table)} {MARKER_COLUMNS}"


def create_table(table: str, columns: Iterable[tuple[str, str]], key: Sequence[str]) -> str:
    """A table that fits, to be shown."""
    listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
    return f"CREATE TABLE {quoted_table(table)} ({listed}, PRIMARY KEY ({quoted(*key)}))"


@dataclass(frozen=True)
class BatchSql:
    """The statements of a batch.

    Args:
        table: `<schema>.<name>`.
        columns: All columns of the rows.
        key: Those that identify a row.
        deletes: Whether rows say that their key is deleted, in a last column more.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    deletes: bool

    @property
    def stage(self) -> str:
        """Make a place for the rows, with the types of the table and without its rules."""
        more = f", false AS {DELETED}" if self.deletes else ""
        return (
            f"CREATE TEMP TABLE tidemill_rows ON COMMIT DROP AS "  # noqa: S608  # names are quoted
            f"SELECT {quoted(*self.columns)}{more} FROM {quoted_table(self.table)} WITH NO DATA"
        )

    @property
    def copy(self) -> str:
        """Fill it."""
        names = (*self.columns, DELETED) if self.deletes else self.columns
        return f"COPY {_BATCH} ({quoted(*names)}) FROM STDIN"

    @property
    def count_bad_keys(self) -> str:
        """How many rows have a key that is null, and how many keys stand there several times."""
        null = " OR ".join(f"{quoted(name)} IS NULL" for name in self.key)
        repeated = f"SELECT FROM {_BATCH} GROUP BY {quoted(*self.key)} HAVING count(*) > 1"
        return (
            f"SELECT (SELECT count(*) FROM {_BATCH} WHERE {null}), "  # noqa: S608  # names are quoted
            f"(SELECT count(*) FROM ({repeated}) AS repeated)"
        )

    @property
    def delete(self) -> str:
        """Delete the rows whose keys are deleted."""
        same = " AND ".join(f"kept.{quoted(name)} = gone.{quoted(name)}" for name in self.key)
        table = quoted_table(self.table)
        return f"DELETE FROM {table} AS kept USING {_BATCH} AS gone WHERE gone.{DELETED} AND {same}"  # noqa: S608

    @property
    def upsert(self) -> str:
        """Put in the rows with new keys, and replace the others."""
        names = quoted(*self.columns)
        others = [quoted(name) for name in self.columns if name not in self.key]
        replaced = ", ".join(f"{name} = excluded.{name}" for name in others)
        found = f"DO UPDATE SET {replaced}" if others else "DO NOTHING"
        kept = f" WHERE NOT {DELETED}" if self.deletes else ""
        return (
            f"INSERT INTO {quoted_table(self.table)} ({names}) SELECT {names} FROM {_BATCH}{kept} "  # noqa: S608
            f"ON CONFLICT ({quoted(*self.key)}) {found}"
        )
