"""A query over tables and folders of files, by the engine that delta-rs brings along (DataFusion): no JVM."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidemill.errors import DataError, UsageError
from tidemill.ledger.files_log import read_files_log
from tidemill.ledger.files_rows import check_readable, copy_rows
from tidemill.ledger.read import open_table
from tidemill.names import ASIDE_OUTPUTS, ZONES, Layout
from tidemill.spec.near_key import near_key
from tidemill.storage.row_values import row_values
from tidemill.storage.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    from tidemill.spec.sinks import FilesSink

# Names of folders in a query begin with it.
FILES = "files."

# Texts, quoted names and comments stay as they are; only names outside of them are tables'.
_OTHER_PARTS = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
_TABLE = rf"(?P<zone>{'|'.join((*ZONES, *ASIDE_OUTPUTS))})\.(?P<name>[a-z][a-z0-9_]*)\b"
# A folder as a pipeline file names it: `files.orders`, or `files."exports/orders"`.
_FOLDER = r"files\.(?:(?P<folder>[A-Za-z0-9_]+)\b|\"(?P<quoted>(?:[^\"]|\"\")*)\")"
_QUERY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:SELECT|WITH|VALUES)\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Result:
    """The first rows of a query's result.

    Args:
        rows: As dictionaries.
        more: Whether there are more rows.
        versions: Version of each table that was read; of a folder its newest batch.
        schema: Of the columns.
    """

    rows: list[dict[str, Any]]
    more: bool
    versions: Mapping[str, int]
    schema: pa.Schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)


def run_query(
    layout: Layout,
    text: str,
    limit: int,
    catalog: str | None = None,
    folders: Mapping[str, FilesSink] = MappingProxyType({}),
) -> Result:
    """Run one SELECT.

    Tables are `<zone>.<table>`, `quarantine.<pipeline>` and `late.<pipeline>`, or with the catalog before it.
    Folders of files sinks are `files."<path>"`, and their rows are those of the files that Spark's log names.

    Args:
        layout: Of the environment.
        text: The query.
        limit: Maximum number of rows.
        catalog: Of the environment.
        folders: Files sinks that can be read, by their `path`.

    Raises:
        UsageError: TIDE-QUERY-001 for what is no query, -002 for a table that does not exist, -004 for
            columns of one name, -007 for files that only Spark can read.
        DataError: TIDE-QUERY-003, if the engine refuses it; TIDE-LEDG-002, if a folder's log cannot be read.
    """
    from deltalake.exceptions import DeltaError

    if _QUERY.match(text) is None:
        raise UsageError(
            "TIDE-QUERY-001",
            "Only queries are run: a SELECT, with WITH before it if need be. Nothing was read or written.",
            facts={"begins_with": ascii(text.strip()[:40])[1:-1]},
            fix="write SELECT …; tables are changed by pipelines only",
        )
    parts = _parts(catalog)
    with TemporaryDirectory(prefix="tidemill-query-") as copies:
        try:
            builder, versions = _registered_in(layout, parts.finditer(text), folders, copies)
            return _first_rows(builder.execute(_quoted(text, parts)), limit, versions)
        except (DeltaError, OSError, ValueError) as error:
            raise DataError(
                "TIDE-QUERY-003",
                "The query cannot be run.",
                facts={"reason": " ".join(str(error).split())[:600]},
                fix="correct the query; its dialect is DataFusion's, near to PostgreSQL's",
            ) from error


def _registered_in(
    layout: Layout, parts: Iterable[re.Match[str]], folders: Mapping[str, FilesSink], copies: str
) -> tuple[QueryBuilder, dict[str, int]]:
    """Make everything known to the engine that a query names; with the version of each."""
    from deltalake import QueryBuilder

    builder, versions = QueryBuilder(), dict[str, int]()
    for name in sorted({_name(part) for part in parts} - {""}):
        table, versions[name] = _opened(layout, name, folders, f"{copies}/{len(versions)}")
        builder = builder.register(_registered(name), table)
    return builder, versions


def _opened(layout: Layout, name: str, folders: Mapping[str, FilesSink], copy: str) -> tuple[DeltaTable, int]:
    if not name.startswith(FILES):
        table = open_table(_path(layout, name))
        if table is None:
            raise _unknown(layout, name, folders)
        return table, table.version()
    sink = folders.get(name.removeprefix(FILES))
    log = None if sink is None else read_files_log(layout, sink.path)
    if sink is None or log is None:
        raise _unknown(layout, name, folders)
    check_readable(sink)
    return copy_rows(log, sink, copy), log.newest_batch


def _first_rows(reader: Any, limit: int, versions: Mapping[str, int]) -> Result:
    import pyarrow as pa

    stream = pa.RecordBatchReader.from_stream(reader)
    repeated = sorted({name for name in stream.schema.names if stream.schema.names.count(name) > 1})
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
            rows += row_values(stream.read_next_batch())
        except StopIteration:
            break
    return Result(rows[:limit], len(rows) > limit, versions, stream.schema)


def _parts(catalog: str | None) -> re.Pattern[str]:
    before = "" if catalog is None else rf"(?:{catalog}\.)?"
    return re.compile(rf"{_OTHER_PARTS}|\b{before}{_TABLE}|\b{_FOLDER}", re.DOTALL)


def _name(part: re.Match[str]) -> str:
    """Return the name of a table or folder; empty for other parts of a query."""
    if part["zone"]:
        return f"{part['zone']}.{part['name']}"
    folder = part["folder"] or (part["quoted"] or "").replace('""', '"')
    return f"{FILES}{folder}" if folder else ""


def _quoted(text: str, parts: re.Pattern[str]) -> str:
    """The query with each table as one name, since the engine knows no schemas of ours."""
    return parts.sub(lambda part: f'"{_registered(_name(part))}"' if _name(part) else part[0], text)


def _registered(name: str) -> str:
    # A dot would be a schema's, and a quote would end the name.
    return name.replace(".", "/").replace('"', "'")


def _path(layout: Layout, name: str) -> str:
    zone, _, table = name.partition(".")
    return layout.aside(zone, table) if zone in ASIDE_OUTPUTS else layout.table(f"{zone}/{table}")


def _unknown(layout: Layout, name: str, folders: Iterable[str]) -> UsageError:
    known = sorted([*_known(layout), *(f"{FILES}{path}" for path in folders)])
    near = near_key(name, known)
    return UsageError(
        "TIDE-QUERY-002",
        "There is no such table, or folder of a files sink with a batch in it.",
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
