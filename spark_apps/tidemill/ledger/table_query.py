"""Query tables, folders of files and tables in memory, without a JVM.

The engine is DataFusion, which is included in delta-rs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tidemill.errors import DataError, UsageError
from tidemill.ledger.query_dialect import in_datafusion, without_backticks
from tidemill.ledger.read import open_table
from tidemill.names import ASIDE_OUTPUTS, ZONES, Layout
from tidemill.spec.near_key import near_key
from tidemill.storage.row_values import row_values
from tidemill.storage.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

# Prefixes of folders and of tables in a driver's memory in a query.
FILES, MEMORY = "files.", "memory."

# Spark sorts nulls before all values, DataFusion after them.
_NULLS_AS_IN_SPARK = "SET datafusion.sql_parser.default_null_ordering = 'nulls_min'"

# Texts, quoted names and comments stay unchanged; table names are only searched outside of them.
_OTHER_PARTS = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
_TABLE = rf"(?P<zone>{'|'.join((*ZONES, *ASIDE_OUTPUTS))})\.(?P<name>[a-z][a-z0-9_]*)\b"
# A folder as a pipeline file names it: `files.orders`, or `files."exports/orders"`.
_FOLDER = r"files\.(?:(?P<folder>[A-Za-z0-9_]+)\b|\"(?P<quoted>(?:[^\"]|\"\")*)\")"
_MEMORY = r"memory\.(?P<memory>[a-z][a-z0-9_]*)\b"
_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES(?:\s+(?:IN|FROM)\s+(?P<zone>\w+))?\s*;?\s*", re.IGNORECASE)
_QUERY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:SELECT|WITH|VALUES)\b", re.IGNORECASE | re.DOTALL)


class Copied(Protocol):
    """Rows outside of Delta tables, which are copied into a table for a query."""

    def newest_batch(self) -> int | None:
        """Return the newest batch of the rows; None if there are none yet."""

    def copy_into(self, folder: str) -> tuple[DeltaTable, int] | None:
        """Return a table of the rows in an empty folder, and their newest batch; None if there are none."""


@dataclass(frozen=True)
class Result:
    """The first rows of a query's result.

    Args:
        columns: Names of the columns, as the query selects them.
        rows: Rows as dictionaries.
        more: True if there are more rows.
        versions: Version of each table that was read; for a folder or a table in memory, its newest batch.
        types: Types of the columns.
    """

    columns: Sequence[str]
    rows: list[dict[str, Any]]
    more: bool
    versions: Mapping[str, int]
    types: Sequence[pa.DataType]


def run_query(
    layout: Layout,
    text: str,
    limit: int,
    catalog: str | None = None,
    others: Mapping[str, Copied] = MappingProxyType({}),
) -> Result:
    """Run one SELECT, or `SHOW TABLES`.

    Tables are named `<zone>.<table>`, `quarantine.<pipeline>` and `late.<pipeline>`, or the same after the
    catalog. Folders of files sinks are named `files."<path>"`, and only the files in Spark's log are read.
    Tables in a driver's memory are named `memory.<name>`.

    Args:
        layout: Layout of the environment.
        text: The query.
        limit: Maximum number of rows.
        catalog: Catalog of the environment.
        others: Readable folders and tables in memory, by their names in a query.

    Raises:
        UsageError: TIDE-QUERY-001 for text that is not a query, -002 for a table that does not exist, -004
            for columns with the same name, -007 for files that only Spark can read, -008 for a call with a
            different meaning in the engine.
        DataError: TIDE-QUERY-003, if the engine refuses it; TIDE-LEDG-002, if a folder's log cannot be read.
    """
    from deltalake.exceptions import DeltaError

    text = without_backticks(text)
    shown = _SHOW_TABLES.fullmatch(text)
    if shown is not None:
        return _tables(layout, others, shown["zone"], limit)
    if _QUERY.match(text) is None:
        raise UsageError(
            "TIDE-QUERY-001",
            "Only queries are run: a SELECT, with WITH before it if need be. Nothing was read or written.",
            facts={"begins_with": ascii(text.strip()[:40])[1:-1]},
            fix="write SELECT … or SHOW TABLES; tables are changed by pipelines only",
        )
    parts = _parts(catalog)
    with TemporaryDirectory(prefix="tidemill-query-") as copies:
        try:
            builder, tables = _registered_in(layout, parts.finditer(text), others, copies)
            names = [field for table, _ in tables.values() for field in _names(table)]
            reader = builder.execute(_quoted(in_datafusion(text, names), parts))
            return _first_rows(reader, limit, {name: version for name, (_, version) in tables.items()})
        except (DeltaError, OSError, ValueError) as error:
            raise DataError(
                "TIDE-QUERY-003",
                "The query cannot be run.",
                facts={"reason": " ".join(str(error).split())[:600]},
                fix="correct the query; its dialect is DataFusion's, near to PostgreSQL's",
            ) from error


def _registered_in(
    layout: Layout, parts: Iterable[re.Match[str]], others: Mapping[str, Copied], copies: str
) -> tuple[QueryBuilder, dict[str, tuple[DeltaTable, int]]]:
    """Register everything that a query names with the engine; return also the version of each."""
    from deltalake import QueryBuilder

    tables: dict[str, tuple[DeltaTable, int]] = {}
    builder = QueryBuilder()
    builder.execute(_NULLS_AS_IN_SPARK)
    for name in sorted({_name(part) for part in parts} - {""}):
        tables[name] = _opened(layout, name, others, f"{copies}/{len(tables)}")
        builder = builder.register(_registered(name), tables[name][0])
    return builder, tables


def _opened(layout: Layout, name: str, others: Mapping[str, Copied], copy: str) -> tuple[DeltaTable, int]:
    if name.startswith((FILES, MEMORY)):
        other = others.get(name)
        found = None if other is None else other.copy_into(copy)
    else:
        table = open_table(_path(layout, name))
        found = None if table is None else (table, table.version())
    if found is None:
        raise _unknown(layout, name, others)
    return found


def _names(table: DeltaTable) -> Iterator[str]:
    """Yield the names of columns, and of the fields in them."""
    parts = [json.loads(table.schema().to_json())]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            yield from [part["name"]] if "nullable" in part and "name" in part else []
            parts += part.values()
        elif isinstance(part, list):
            parts += part


def _tables(layout: Layout, others: Iterable[str], zone: str | None, limit: int) -> Result:
    """Return the rows of Spark's SHOW TABLES: everything that a query can name."""
    import pyarrow as pa

    columns = ("namespace", "tableName")
    names = [name.partition(".") for name in sorted([*_known(layout), *others])]
    rows = [dict(zip(columns, (of, name), strict=True)) for of, _, name in names if zone in (None, of)]
    return Result(columns, rows[:limit], len(rows) > limit, {}, [pa.string()] * 2)


def _first_rows(reader: Any, limit: int, versions: Mapping[str, int]) -> Result:
    import pyarrow as pa

    stream = pa.RecordBatchReader.from_stream(reader)
    columns = _headings(stream.schema.names, versions)
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise UsageError(
            "TIDE-QUERY-004",
            "Two columns of the result have one name.",
            facts={"columns": ", ".join(repeated)},
            fix="name them apart: SELECT a.id AS a_id, b.id AS b_id",
        )
    rows: list[dict[str, Any]] = []
    while len(rows) <= limit:
        try:
            rows += row_values(stream.read_next_batch().rename_columns(columns))
        except StopIteration:
            break
    return Result(columns, rows[:limit], len(rows) > limit, versions, stream.schema.types)


def _headings(names: Sequence[str], tables: Iterable[str]) -> list[str]:
    """Return column names without the engine's names of the tables.

    If two columns would then have the same name, the table names stay.
    """
    for shown in ("", "{}."):
        made = list(names)
        for table in tables:
            made = [name.replace(f"{_registered(table)}.", shown.format(table)) for name in made]
        if len(set(made)) == len(made):
            return made
    return made


def _parts(catalog: str | None) -> re.Pattern[str]:
    before = "" if catalog is None else rf"(?:{catalog}\.)?"
    return re.compile(rf"{_OTHER_PARTS}|\b{before}{_TABLE}|\b{_FOLDER}|\b{_MEMORY}", re.DOTALL)


def _name(part: re.Match[str]) -> str:
    """Return the name of a table or folder; empty for other parts of a query."""
    if part["zone"]:
        return f"{part['zone']}.{part['name']}"
    if part["memory"]:
        return f"{MEMORY}{part['memory']}"
    folder = part["folder"] or (part["quoted"] or "").replace('""', '"')
    return f"{FILES}{folder}" if folder else ""


def _quoted(text: str, parts: re.Pattern[str]) -> str:
    """Return the query with each table as a single name, because the engine does not know the zones."""
    return parts.sub(lambda part: f'"{_registered(_name(part))}"' if _name(part) else part[0], text)


def _registered(name: str) -> str:
    # A dot would separate a schema, and a quote would end the name.
    return name.replace(".", "/").replace('"', "'")


def _path(layout: Layout, name: str) -> str:
    zone, _, table = name.partition(".")
    return layout.aside(zone, table) if zone in ASIDE_OUTPUTS else layout.table(f"{zone}/{table}")


def _unknown(layout: Layout, name: str, others: Iterable[str]) -> UsageError:
    known = sorted([*_known(layout), *others])
    near = near_key(name, known)
    return UsageError(
        "TIDE-QUERY-002",
        "There is no such table, folder of a files sink with a batch in it, or table in memory.",
        facts={"table": name, "known": ", ".join(known) or "none"},
        fix=f"did you mean {near}?"
        if near
        else 'name a table as <zone>.<table>, and a folder as files."<path>"',
    )


def _known(layout: Layout) -> list[str]:
    store = Store(layout.root)
    folders = {zone: f"{layout.root}/tables/{zone}" for zone in ZONES}
    folders |= {output: f"{layout.root}/{output}" for output in ASIDE_OUTPUTS}
    return [f"{zone}.{table}" for zone, folder in folders.items() for table in store.list_names(folder)]
