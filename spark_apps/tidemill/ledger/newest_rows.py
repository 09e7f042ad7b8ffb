"""The newest rows of a table, and a plot of a value over time or by key. No JVM, as for `tidemill query`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tidemill.errors import UsageError
from tidemill.ledger.read import open_table
from tidemill.ledger.table_query import FILES, MEMORY, Copied, run_query
from tidemill.names import LINEAGE_COLUMNS, Layout
from tidemill.spec.near_key import near_key
from tidemill.spec.readable import cell

if TYPE_CHECKING:
    import pyarrow as pa


class Column(NamedTuple):
    """A column, or a field of a struct, with its SQL and its type."""

    sql: str
    type: pa.DataType


class Point(NamedTuple):
    """One plotted value with its label."""

    label: str
    value: float


# Maximum number of rows in a plot: enough for its sixty points, and only some megabytes for a table of any
# size.
DRAWN_ROWS = 100_000

# Prefix of folders in the ledger, and in the names of a pipeline's outputs.
FOLDER = "files:"

# Prefix of tables in a driver's memory.
IN_MEMORY = "memory:"

# Plotted instead of a value if a table has no numeric column.
COUNT = "count(*)"


@dataclass(frozen=True)
class Axes:
    """The axes of a plot.

    Args:
        x: Column of times, numbers or keys, or a struct field such as `window.start`.
        y: Numeric column whose mean is plotted for each `x`; or `count(*)`.
        is_ordered: True if `x` is ordered; keys are not.
        first_by: Column whose highest values select the plotted rows of a large table; any rows if None.
        shown_by: Column whose highest values select the listed rows.
        is_time: True if `shown_by` has times, so that the listed rows are the newest ones.
    """

    x: str
    y: str
    is_ordered: bool
    first_by: str | None
    shown_by: str
    is_time: bool

    @property
    def rows_title(self) -> str:
        """Return the title of the listed rows."""
        return f"newest rows by {self.shown_by}" if self.is_time else f"rows with the highest {self.shown_by}"

    @property
    def title(self) -> str:
        """Return the title of the axes."""
        return f"rows by {self.x}" if self.y == COUNT else f"mean {self.y} by {self.x}"


@dataclass(frozen=True)
class TableView:
    """The view of one version of a table.

    Args:
        version: Version of the table.
        columns: Names of the columns.
        rows: The newest rows, newest first; without a time column, those with the highest values.
        points: Points of the plot, in the order of the axis.
        drawn_rows: Number of plotted rows if the table has more; else None.
    """

    version: int
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    axes: Axes
    points: Sequence[Point]
    drawn_rows: int | None

    @property
    def title(self) -> str:
        """Return the title of the plot."""
        if self.drawn_rows is None:
            return self.axes.title
        if self.axes.first_by is None:
            return f"{self.axes.title}, of {self.drawn_rows:,} rows of the table"
        return f"{self.axes.title}, of the {self.drawn_rows:,} rows with the highest {self.axes.first_by}"


@dataclass(frozen=True)
class Wanted:
    """The user's request.

    Args:
        x: Column; chosen by its type if None.
        y: Column; chosen by its type if None.
        event_time: The pipeline's event time, which is used as `x` if the table has it.
        rows: Maximum number of listed rows.
        points: Maximum number of points.
        drawn_rows: Maximum number of plotted rows.
    """

    x: str | None = None
    y: str | None = None
    event_time: str | None = None
    rows: int = 10
    points: int = 60
    drawn_rows: int = DRAWN_ROWS


def table_version(
    layout: Layout, table: str, others: Mapping[str, Copied] = MappingProxyType({})
) -> int | None:
    """Return the newest version of a table, or the newest batch of a folder or memory table; None if none."""
    if table.startswith(FOLDER):
        return others[FILES + table.removeprefix(FOLDER)].newest_batch()
    if table.startswith(IN_MEMORY):
        return others[MEMORY + table.removeprefix(IN_MEMORY)].newest_batch()
    found = open_table(layout.table(table))
    return None if found is None else found.version()


def view_table(
    layout: Layout, table: str, wanted: Wanted, others: Mapping[str, Copied] = MappingProxyType({})
) -> TableView:
    """Read the view of an existing table, folder or table in memory.

    Args:
        layout: Layout of the environment.
        table: `<zone>/<table>`, `files:<path>` or `memory:<name>`.
        wanted: The user's request.
        others: Folders and tables in memory by their names in a query.

    Raises:
        UsageError: TIDE-QUERY-005 for a column that does not exist, -006 for one that cannot be plotted.
    """
    name = _in_query(table)
    read = partial(run_query, layout, others=others)
    empty = read(f"SELECT * FROM {name} LIMIT 0", 0)  # noqa: S608
    columns = drawable(dict(zip(empty.columns, empty.types, strict=True)))
    axes = choose_axes(columns, wanted)
    drawn = read(_points_query(name, axes, columns, wanted), wanted.points)
    points = [Point(cell(row["x"]), row["y"]) for row in drawn.rows if isfinite(row["y"])]
    order = columns[axes.shown_by].sql
    text = f"SELECT * FROM {name} ORDER BY {order} DESC NULLS LAST LIMIT {wanted.rows}"  # noqa: S608
    newest = read(text, wanted.rows)
    return TableView(
        next(iter(newest.versions.values())),
        newest.columns,
        [[_cell(row[column]) for column in newest.columns] for row in newest.rows],
        axes,
        points[::-1] if axes.is_ordered else points,
        next((row["rows"] for row in drawn.rows if row["rows"] == wanted.drawn_rows), None),
    )


def _points_query(name: str, axes: Axes, columns: Mapping[str, Column], wanted: Wanted) -> str:
    """Return the query of the points; it limits rows before grouping, as each row may be a separate group."""
    x = columns[axes.x].sql
    value, has_value = "CAST(count(*) AS DOUBLE)", ""
    if axes.y != COUNT:
        y = columns[axes.y].sql
        value, has_value = f"avg(CAST({y} AS DOUBLE))", f"AND {y} IS NOT NULL"
    first = "" if axes.first_by is None else f"ORDER BY {columns[axes.first_by].sql} DESC NULLS LAST"
    rows = f"SELECT * FROM {name} WHERE {x} IS NOT NULL {has_value} {first} LIMIT {wanted.drawn_rows}"  # noqa: S608
    order = "x DESC" if axes.is_ordered else "y DESC, x"
    return (
        f"SELECT {x} AS x, {value} AS y, sum(count(*)) OVER () AS rows FROM ({rows}) "  # noqa: S608
        f"GROUP BY {x} ORDER BY {order} LIMIT {wanted.points}"
    )


def drawable(columns: Mapping[str, pa.DataType]) -> dict[str, Column]:
    """Return the columns of a table, and the fields of its structs, by name."""
    found = {name: Column(quoted(name), type_) for name, type_ in columns.items()}
    for name, type_ in columns.items():
        found |= {
            inside: column for inside, column in _fields(name, quoted(name), type_) if inside not in columns
        }
    return found


def _fields(name: str, sql: str, type_: pa.DataType) -> Iterator[tuple[str, Column]]:
    import pyarrow.types as t

    for field in type_ if t.is_struct(type_) else ():
        inside = f"{name}.{field.name}"
        of_field = sql + "['" + field.name.replace("'", "''") + "']"
        yield inside, Column(of_field, field.type)
        yield from _fields(inside, of_field, field.type)


def choose_axes(columns: Mapping[str, Column], wanted: Wanted) -> Axes:
    """Return the axes that the user named, or those that the column types suggest.

    Raises:
        UsageError: See `view_table`.
    """
    import pyarrow.types as t

    kinds = {name: _kind(column.type) for name, column in columns.items()}
    for name in (wanted.x, wanted.y):
        if name is not None and name not in kinds:
            raise _unknown_column(name, kinds)
    own = [name for name in kinds if name not in LINEAGE_COLUMNS]
    of_kind = {kind: [name for name in own if kinds[name] == kind] for kind in ("time", "text", "number")}
    integers = [name for name in of_kind["number"] if t.is_integer(columns[name].type)]
    times = sorted(of_kind["time"], key=lambda name: name != wanted.event_time)
    # A key with a number; or else the number of rows by the number itself.
    suggested = [*times, *of_kind["text"], *integers]
    candidates = suggested if wanted.x is None else [wanted.x]
    x = next((name for name in candidates if kinds[name] != "other"), None)
    if x is None:
        raise _not_drawn(wanted.x or ", ".join(kinds), kinds, ("time", "text", "number"))
    if wanted.y is not None and kinds[wanted.y] != "number":
        raise _not_drawn(wanted.y, kinds, ("number",))
    y = wanted.y or next((name for name in of_kind["number"] if name != x), COUNT)
    is_ordered = kinds[x] != "text"
    first_by = x if is_ordered else next(iter(times), None if y == COUNT else y)
    shown_by = x if kinds[x] == "time" else next(iter(times), x if first_by is None else first_by)
    return Axes(x, y, is_ordered, first_by, shown_by, kinds[shown_by] == "time")


def quoted(column: str) -> str:
    """Quote a column's name for SQL."""
    return '"' + column.replace('"', '""') + '"'


def _cell(value: object) -> str:
    """Format a value for display; six digits are enough."""
    return f"{value:.6g}" if isinstance(value, float) else cell(value)


def _in_query(table: str) -> str:
    if table.startswith(FOLDER):
        return FILES + quoted(table.removeprefix(FOLDER))
    if table.startswith(IN_MEMORY):
        return MEMORY + table.removeprefix(IN_MEMORY)
    return table.replace("/", ".")


def _kind(type_: pa.DataType) -> str:
    import pyarrow.types as t

    if t.is_timestamp(type_) or t.is_date(type_):
        return "time"
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_) or t.is_boolean(type_):
        return "text"
    is_number = t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_)
    return "number" if is_number else "other"


def _unknown_column(name: str, known: dict[str, str]) -> UsageError:
    near = near_key(name, known)
    return UsageError(
        "TIDE-QUERY-005",
        "The table has no such column.",
        facts={"column": ascii(name[:80])[1:-1], "known": ", ".join(known)},
        fix=f"did you mean {near}?" if near else "name one of the table's columns",
    )


def _not_drawn(name: str, kinds: dict[str, str], expected: Sequence[str]) -> UsageError:
    fitting = [column for column, kind in kinds.items() if kind in expected]
    return UsageError(
        "TIDE-QUERY-006",
        f"This cannot be drawn: it is no {' or '.join(expected)}.",
        facts={"column": ascii(name[:80])[1:-1], "fitting": ", ".join(fitting) or "none"},
        fix="name another column with --x or --y",
    )
