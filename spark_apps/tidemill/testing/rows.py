"""Convert a test's rows for a source, and check them, so that a typo does not look like a bug."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from tidemill.errors import UsageError
from tidemill.spec.near_key import near_key

if TYPE_CHECKING:
    import pyarrow as pa

    from tidemill.payload.decoder import Decoder

Row = Mapping[str, Any]


def check_columns(rows: Sequence[Row], columns: Iterable[str], start: int = 0) -> None:
    """Check that no row has a column that the source does not know.

    Args:
        rows: Whole rows, or the values inside of a column.
        columns: The known columns.
        start: Position of the first row.

    Raises:
        UsageError: TIDE-TEST-003, with the nearest column.
    """
    known = list(columns)
    for place, row in enumerate(rows, start):
        for name in row:
            if name not in known:
                near = near_key(name, known)
                fix = f"did you mean {near}?" if near else f"use {', '.join(known)}"
                misfit(place, f"unknown column {name}", fix)


def check_fits(decoder: Decoder, records: Sequence[bytes]) -> None:
    """Check records with the pipeline's own decoder.

    Raises:
        UsageError: TIDE-TEST-003, with the reason that the quarantine would have.
    """
    import pyarrow as pa

    decoded = decoder.decode(pa.array(records, pa.binary()))
    if decoded.reasons:
        misfit(
            decoded.rejected[0].as_py(),
            decoded.reasons[0],
            "correct the row; to see what becomes of a record that does not fit, hand it in by add_payloads",
        )


def as_json(rows: Sequence[Row]) -> list[bytes]:
    """Encode each row as one line of JSON; times in ISO 8601."""
    return [_json_line(place, row) for place, row in enumerate(rows)]


def as_csv(rows: Sequence[Row], columns: Sequence[str], separator: str) -> list[bytes]:
    """Encode each row as one line of CSV: nothing for null, texts in quotes."""
    return [separator.join(_csv_field(row.get(name)) for name in columns).encode() for row in rows]


def as_text(rows: Sequence[Row]) -> list[bytes]:
    """Return the text of each row."""
    for place, row in enumerate(rows):
        if not isinstance(row.get("value"), str):
            misfit(place, "no text", "write {'value': 'the text'}")
    return [row["value"].encode() for row in rows]


def as_table(rows: Sequence[Row], schema: pa.Schema | None) -> pa.Table:
    """Convert rows to Arrow; without a schema, with the types of their values.

    Raises:
        UsageError: TIDE-TEST-003, if a value does not fit its column, or the type of a column is unknown.
    """
    import pyarrow as pa

    if schema is not None:
        check_columns(rows, schema.names)
        types = {field.name: field.type for field in schema}
        rows = [
            {name: _typed(place, value, types[name]) for name, value in row.items()}
            for place, row in enumerate(rows)
        ]
    else:
        names = list(dict.fromkeys(name for row in rows for name in row))
        rows = [{name: row.get(name) for name in names} for row in rows]
    try:
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        misfit(None, str(error).partition("\n")[0], "correct the value")
    untyped = [field.name for field in table.schema if pa.types.is_null(field.type)]
    if untyped:
        misfit(None, f"only nulls in the column {untyped[0]}", "give the table's columns as `columns`")
    return table if schema is not None else _in_utc(table)


def _in_utc(table: pa.Table) -> pa.Table:
    """Convert times to those of the platform's tables: microseconds in UTC."""
    import pyarrow as pa

    moment = pa.timestamp("us", "UTC")
    fields = [f.with_type(moment) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _typed(place: int, value: Any, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if isinstance(value, str) and pa.types.is_timestamp(kind):
        try:
            return datetime.fromisoformat(value)
        except ValueError as error:
            misfit(place, str(error), "write a datetime, or ISO 8601")
    if isinstance(value, float) and pa.types.is_integer(kind):
        # Arrow would silently truncate it.
        misfit(place, f"{value} is no integer", "correct the value, or the table's columns")
    return value


def _json_line(place: int, row: Row) -> bytes:
    try:
        return json.dumps(dict(row), default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        misfit(place, str(error), "use values that JSON has, or datetime, date and Decimal")


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} is none of JSON's")


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    text = value.isoformat() if isinstance(value, datetime | date) else str(value)
    return '"' + text.replace('"', '""') + '"'


def misfit(place: int | None, reason: str, fix: str) -> NoReturn:
    """Refuse a row.

    Raises:
        UsageError: TIDE-TEST-003.
    """
    where = {} if place is None else {"row": place}
    raise UsageError(
        "TIDE-TEST-003",
        "A row of the test does not fit the source.",
        facts={**where, "reason": reason},
        fix=fix,
    )
