"""A query over Delta tables, by the engine that delta-rs brings along (DataFusion): no JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemill.errors import DataError, UsageError
from tidemill.ledger.read import open_table
from tidemill.names import ASIDE_OUTPUTS, ZONES, Layout
from tidemill.spec.near_key import near_key
from tidemill.storage.row_values import row_values
from tidemill.storage.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

# Texts, quoted names and comments stay as they are; only names outside of them are tables'.
_OTHER_PARTS = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
_TABLE = rf"(?P<zone>{'|'.join((*ZONES, *ASIDE_OUTPUTS))})\.(?P<name>[a-z][a-z0-9_]*)\b"
_QUERY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*(?:SELECT|WITH|VALUES)\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Result:
    """The first rows of a query's result.

    Args:
        rows: As dictionaries.
        more: Whether there are more rows.
        versions: Version of each table that was read.
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


def run_query(layout: Layout, text: str, limit: int, catalog: str | None = None) -> Result:
    """Run one SELECT; tables are `<zone>.<table>`, `quarantine.<pipeline>` and `late.<pipeline>`.

    With a catalog each of them has its name before it, or not.

    Raises:
        UsageError: TIDE-QUERY-001 for what is no query, -002 for a table that does not exist, -004 for
            columns of one name.
        DataError: TIDE-QUERY-003, if the engine refuses it.
    """
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    if _QUERY.match(text) is None:
        raise UsageError(
            "TIDE-QUERY-001",
            "Only queries are run: a SELECT, with WITH before it if need be. Nothing was read or written.",
            facts={"begins_with": ascii(text.strip()[:40])[1:-1]},
            fix="write SELECT …; tables are changed by pipelines only",
        )
    builder, versions = QueryBuilder(), {}
    parts = _parts(catalog)
    for name in sorted({_name(part) for part in parts.finditer(text) if part["zone"]}):
        table = open_table(_path(layout, name))
        if table is None:
            raise _unknown(layout, name)
        versions[name] = table.version()
        builder = builder.register(_registered(name), table)
    try:
        return _first_rows(builder.execute(_quoted(text, parts)), limit, versions)
    except (DeltaError, OSError, ValueError) as error:
        raise DataError(
            "TIDE-QUERY-003",
            "The query cannot be run.",
            facts={"reason": " ".join(str(error).split())[:600]},
            fix="correct the query; its dialect is DataFusion's, near to PostgreSQL's",
        ) from error


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
    return re.compile(rf"{_OTHER_PARTS}|\b{before}{_TABLE}", re.DOTALL)


def _name(part: re.Match[str]) -> str:
    return f"{part['zone']}.{part['name']}"


def _quoted(text: str, parts: re.Pattern[str]) -> str:
    """The query with each table as one name, since the engine knows no schemas of ours."""
    return parts.sub(lambda part: f'"{_registered(_name(part))}"' if part["zone"] else part[0], text)


def _registered(name: str) -> str:
    # A dot would be a schema's.
    return name.replace(".", "/")


def _path(layout: Layout, name: str) -> str:
    zone, _, table = name.partition(".")
    return layout.aside(zone, table) if zone in ASIDE_OUTPUTS else layout.table(f"{zone}/{table}")


def _unknown(layout: Layout, name: str) -> UsageError:
    known = sorted(_known(layout))
    near = near_key(name, known)
    return UsageError(
        "TIDE-QUERY-002",
        "There is no such table.",
        facts={"table": name, "known": ", ".join(known) or "none"},
        fix=f"did you mean {near}?" if near else "name a table as <zone>.<table>",
    )


def _known(layout: Layout) -> list[str]:
    store = Store(layout.root)
    folders = {zone: f"{layout.root}/tables/{zone}" for zone in ZONES}
    folders |= {output: f"{layout.root}/{output}" for output in ASIDE_OUTPUTS}
    return [f"{zone}.{table}" for zone, folder in folders.items() for table in store.list_names(folder)]
