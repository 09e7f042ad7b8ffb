"""Match columns of rows with columns of a PostgreSQL table, and write their values as text.

A value either arrives unchanged, or its type is refused before the first batch. Nothing is rounded, truncated
or moved to another time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import types as T

# Digits of the largest value.
_DIGITS: dict[type[T.DataType], int] = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 19}

# PostgreSQL types that can store each value of a Spark type; the first one is used in a new table. The
# database checks the form of the text, such as `uuid`, an enum's values or JSON.
_HOLD: dict[type[T.DataType], tuple[str, ...]] = {
    T.BooleanType: ("boolean",),
    T.ByteType: ("smallint", "integer", "bigint"),
    T.ShortType: ("smallint", "integer", "bigint"),
    T.IntegerType: ("integer", "bigint"),
    T.LongType: ("bigint",),
    T.FloatType: ("real", "double precision"),
    T.DoubleType: ("double precision",),
    T.StringType: ("text", "character varying", "citext", "uuid", "enum", "json", "jsonb"),
    T.BinaryType: ("bytea",),
    T.DateType: ("date",),
    T.TimestampType: ("timestamp with time zone",),
    T.TimestampNTZType: ("timestamp without time zone",),
}
_JSON = ("jsonb", "json")

# Such as `numeric(10,2)`, `timestamp(3) with time zone`, `text[]`.
_TYPE = re.compile(
    r"^(?P<name>[^(\[]+?)(?:\((?P<size>[\d,]+)\))?(?P<zone> with(?:out)? time zone)?(?P<array>\[\])?$"
)


@dataclass(frozen=True)
class DatabaseColumn:
    """A column of the table.

    Args:
        name: Name as stored.
        type: Type as in PostgreSQL's `format_type`; `enum` for every enum.
        required: True if a row must have a value, because there is no default.
        computed: True if the database computes the value, and accepts none.
    """

    name: str
    type: str
    required: bool = False
    computed: bool = False


@dataclass(frozen=True)
class DatabaseTable:
    """The database's description of a table.

    Args:
        columns: Its columns.
        keys: Columns of each unique index that identifies all rows.
    """

    columns: tuple[DatabaseColumn, ...]
    keys: frozenset[frozenset[str]]


def misfits(rows: T.StructType, key: Sequence[str], table: DatabaseTable) -> Iterator[str]:
    """Yield the reasons why these rows cannot be written to this table by this key."""
    columns = {column.name: column for column in table.columns}
    for field in rows:
        column = columns.pop(field.name, None)
        if column is None:
            yield f"the table has no column {field.name}"
        elif column.computed:
            yield f"{field.name} is computed by the database"
        elif not holds(column.type, field.dataType):
            yield f"{field.name} {field.dataType.simpleString()} does not fit into {column.type}"
    yield from (f"{name} needs a value and has no default" for name, left in columns.items() if left.required)
    absent = [name for name in key if name not in rows.names]
    if absent:
        yield f"the rows have no key column {', '.join(absent)}"
    elif frozenset(key) not in table.keys:
        yield f"no unique index has just the columns {', '.join(key)}"


def holds(target: str, kind: T.DataType) -> bool:
    """Return True if a PostgreSQL column of type `target` can store each value of a Spark type unchanged."""
    found = _TYPE.match(target)
    if found is None:
        return False
    name, size = found["name"] + (found["zone"] or ""), found["size"]
    if found["array"]:
        if not isinstance(kind, T.ArrayType) or isinstance(kind.elementType, T.ArrayType):
            return False
        return holds(target.removesuffix("[]"), kind.elementType)
    if name in _JSON and not isinstance(kind, T.StringType):
        return _has_json(kind)
    if name == "numeric":
        return _holds_number(size, kind)
    if name.startswith("timestamp") and size not in (None, "6"):
        return False
    return name in _HOLD.get(type(kind), ())


def _holds_number(size: str | None, kind: T.DataType) -> bool:
    if isinstance(kind, T.DecimalType):
        whole, fraction = kind.precision - kind.scale, kind.scale
    elif type(kind) in _DIGITS:
        whole, fraction = _DIGITS[type(kind)], 0
    else:
        return False
    if size is None:
        return True
    precision, _, scale = size.partition(",")
    return int(precision) - int(scale or 0) >= whole and int(scale or 0) >= fraction


def _has_json(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return all(_is_value(field.dataType) for field in kind)
    if isinstance(kind, T.MapType):
        return isinstance(kind.keyType, T.StringType) and _is_value(kind.valueType)
    return isinstance(kind, T.ArrayType) and _is_value(kind.elementType)


def _is_value(kind: T.DataType) -> bool:
    return type(kind) in _HOLD or isinstance(kind, T.DecimalType) or _has_json(kind)


def natural_type(kind: T.DataType) -> str:
    """Return the PostgreSQL type for a new column; empty if there is none."""
    if isinstance(kind, T.DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, T.ArrayType) and _is_value(kind.elementType) and not _has_json(kind.elementType):
        return natural_type(kind.elementType) + "[]"
    return _JSON[0] if _has_json(kind) else next(iter(_HOLD.get(type(kind), ("",))))


_AS_JSON = (
    "map('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)
# In Spark SQL, a backslash in quotes depends on a setting.
_BACKSLASH = "char(92)"


def text_of(expression: str, kind: T.DataType, target: str) -> str:
    """Return the SQL for the text that PostgreSQL reads as this value; null stays null.

    The session is in UTC.

    Args:
        expression: The value.
        kind: Its type.
        target: The column's type.
    """
    if target.endswith("[]") and isinstance(kind, T.ArrayType):
        item = f"string({text_of('item', kind.elementType, target.removesuffix('[]'))})"
        escaped = f"replace({item}, {_BACKSLASH}, {_BACKSLASH} || {_BACKSLASH})"
        escaped = f"replace({escaped}, '\"', {_BACKSLASH} || '\"')"
        items = f"transform({expression}, item -> coalesce('\"' || {escaped} || '\"', 'NULL'))"
        return f"'{{' || array_join({items}, ',') || '}}'"
    if isinstance(kind, T.StructType | T.MapType | T.ArrayType):
        return f"to_json({expression}, {_AS_JSON})"
    if isinstance(kind, T.BinaryType):
        return f"{_BACKSLASH} || 'x' || hex({expression})"
    if isinstance(kind, T.TimestampType):
        return f"string({expression}) || '+00'"
    if isinstance(kind, T.FloatType) and target == "double precision":
        return f"string(double({expression}))"
    return f"string({expression})"
