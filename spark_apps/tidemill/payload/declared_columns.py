"""Convert the declared columns of a files source from Spark DDL to the decoders' schema.

| DDL                                          | in JSON                           | in CSV           |
|----------------------------------------------|-----------------------------------|------------------|
| `string`, `varchar(n)`, `char(n)`            | a string                          | the text         |
| `tinyint`, `smallint`, `int`, `bigint`       | an integral number that fits      | digits           |
| `float`, `double`                            | a number                          | a number         |
| `decimal(p, s)`, `decimal` (10 digits)       | a number, or a string with digits | digits           |
| `boolean`                                    | `true`, `false`                   | `true`, `false`  |
| `date`                                       | `2026-01-31`                      | the same         |
| `timestamp`                                  | RFC 3339; UTC without an offset   | the same         |
| `timestamp_ntz`                              | RFC 3339 without an offset        | the same         |
| `binary`                                     | Base64                            | Base64           |
| `struct<…>`, `array<…>`                      | an object, an array               | refused          |
| `map<string, …>` of plain values, at the top | an object with any names          | refused          |

`NOT NULL` makes a column required. Every other column may be missing or null. Parquet, ORC and Avro files
have types, so columns of these formats may be nested in any way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from tidemill.errors import SpecError
from tidemill.payload.json_schema import EACH_ITEM, Path, PayloadSchema
from tidemill.payload.source_columns import RESERVED_NAMES
from tidemill.payload.timestamps import INSTANT, LOCAL_TIME
from tidemill.spec.ddl import DdlColumn, DdlType, parse_columns
from tidemill.spec.files_source import FilesSource

_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "char": pa.string(),
    "varchar": pa.string(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": INSTANT,
    "timestamp_ntz": LOCAL_TIME,
    "binary": pa.binary(),
}


def declared_schema(files: FilesSource) -> PayloadSchema:
    """Return the columns that a files source declares.

    Raises:
        SpecError: TIDE-SPEC-031, if the text cannot be read or a value of the format cannot hold a column.
    """
    try:
        return _schema(files.schema_ or "value string", files.format or "")
    except ValueError as error:
        raise SpecError(
            "TIDE-SPEC-031",
            "The columns of a files source cannot be read.",
            facts={"key": "source.files.schema", "reason": error},
            fix="write Spark DDL, e.g. `device string, signal double, at timestamp`",
        ) from error


def _schema(ddl: str, file_format: str) -> PayloadSchema:
    required: list[Path] = []
    fields = list(_fields(parse_columns(ddl), (), required))
    for field in fields:
        if field.name.lower() in RESERVED_NAMES:
            raise ValueError(f"the name {field.name!a} is reserved")
        _check_format(field, file_format)
    instants = frozenset(path for field in fields for path in _instants(field.type, (field.name,)))
    return PayloadSchema("schema", pa.schema(fields), tuple(required), frozenset(), no_offset=instants)


def _check_format(field: pa.Field, file_format: str) -> None:
    """Raise an error for a column that the format's decoder cannot read."""
    if file_format == "csv" and pa.types.is_nested(field.type):
        raise ValueError(f"{field.name!a} holds other values, which a CSV field does not")
    if file_format == "text" and not pa.types.is_string(field.type):
        raise ValueError(f"a text file has one column, a string; {field.name!a} is {field.type}")
    if file_format == "json":
        for place, inner in _inner_types(field.type, is_top=True):
            if pa.types.is_map(inner) and not (place and _is_plain_map(inner)):
                raise ValueError(
                    f"{field.name!a}: a map in JSON is a column by itself, with strings as keys and with "
                    "string, long, double or boolean values"
                )


def _is_plain_map(kind: pa.MapType) -> bool:
    plain = (pa.string(), pa.int64(), pa.float64(), pa.bool_())
    return pa.types.is_string(kind.key_type) and kind.item_type in plain


def _inner_types(kind: pa.DataType, *, is_top: bool = False) -> Iterator[tuple[bool, pa.DataType]]:
    yield is_top, kind
    for number in range(kind.num_fields if pa.types.is_nested(kind) else 0):
        yield from _inner_types(kind.field(number).type)


def _instants(kind: pa.DataType, path: Path) -> Iterator[Path]:
    """Yield the paths of instants. Without an offset they are in UTC, as in Spark."""
    if kind == INSTANT:
        yield path
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _instants(field.type, (*path, field.name))
    elif pa.types.is_list(kind):
        yield from _instants(kind.value_type, (*path, EACH_ITEM))


def _fields(columns: Iterable[DdlColumn], path: Path, required: list[Path]) -> Iterator[pa.Field]:
    for column in columns:
        place = (*path, column.name)
        if column.required:
            required.append(place)
        yield pa.field(column.name, _type(column.type, place, required))


def _type(kind: DdlType, path: Path, required: list[Path]) -> pa.DataType:
    if kind.name == "struct":
        return pa.struct(list(_fields(kind.fields, path, required)))
    if kind.name == "array":
        return pa.list_(_type(kind.parts[0], (*path, EACH_ITEM), required))
    if kind.name == "map":
        # `required` does not cover values of a map.
        key, value = (_type(part, path, []) for part in kind.parts)
        return pa.map_(key, value)
    return pa.decimal128(*kind.numbers) if kind.name == "decimal" else _TYPES[kind.name]
