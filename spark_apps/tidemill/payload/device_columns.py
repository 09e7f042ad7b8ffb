"""The columns of an IoT hub's messages, from the headers of their records.

The name of a header decides how its bytes are read, so that live and archived events give the same result:

| name | bytes |
|---|---|
| of a text column, and AMQP's own properties | AMQP if they cannot be UTF-8, else UTF-8 |
| `iothub-enqueuedtime` | the same, then milliseconds since 1970 or ISO 8601 |
| any other | AMQP if they are exactly one value, else UTF-8 |

A text in UTF-8 never begins with the byte that AMQP puts before a string, symbol, time or UUID. It can begin
with the byte of a number or a boolean (`A` is true), but only an application's own properties have those.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import accumulate, pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidemill.payload.amqp_values import AmqpValue, decoded, moment_of
from tidemill.spec.iothub_source import DEVICE_COLUMNS, OTHER_PROPERTIES

HEADERS = "kafka_headers"

_TYPES = {"string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}
DEVICE_SCHEMA = pa.schema(
    [
        *(pa.field(name, _TYPES[column.type]) for name, column in DEVICE_COLUMNS.items()),
        pa.field(OTHER_PROPERTIES, pa.map_(pa.string(), pa.string())),
    ]
)

_COLUMN_OF = {column.property: name for name, column in DEVICE_COLUMNS.items()}
_TIMES = frozenset(name for name, column in DEVICE_COLUMNS.items() if column.type == "timestamp")

# Properties of an AMQP message itself (part 3, section 3.2.4), which Event Hubs converts to texts.
_OF_MESSAGE = frozenset(
    {
        *("message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type"),
        *("content-encoding", "absolute-expiry-time", "creation-time", "group-id", "group-sequence"),
        "reply-to-group-id",
    }
)

# AMQP's null.
_NULL = b"\x40"

# Prefix of the hub's own properties of the event, which are in the columns `kafka_…`.
_OF_HUB = "x-opt-"

# Maximum number of cached decoded values: repeated ones such as device ids and login methods.
_CACHED = 10_000

Properties = dict[str, str | None]
Values = dict[str, str | datetime | None]


def device_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield records with headers, and the columns from these headers."""
    for records in batches:
        rows = [_properties(headers) for headers in _headers(records[HEADERS])]
        columns = [
            *(
                pa.array([row.get(name) for row, _ in rows], DEVICE_SCHEMA.field(name).type)
                for name in DEVICE_COLUMNS
            ),
            pa.array(
                [list(others.items()) for _, others in rows], DEVICE_SCHEMA.field(OTHER_PROPERTIES).type
            ),
        ]
        fields = [*records.schema, *DEVICE_SCHEMA]
        yield pa.RecordBatch.from_arrays([*records.columns, *columns], schema=pa.schema(fields))


def device_schema(records: StructType, *, headers: bool) -> StructType:
    """Return the columns of such records, with the headers themselves only on request."""
    kept = [field for field in records if headers or field.name != HEADERS]
    return StructType([*kept, *from_arrow_schema(DEVICE_SCHEMA)])


def _headers(column: pa.ListArray) -> Iterator[dict[str, bytes | None]]:
    """Yield the headers of each record; if a name is repeated, the last one counts."""
    entries = pc.list_flatten(column)
    names, values = entries.field("key").to_pylist(), entries.field("value").to_pylist()
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
    for begin, end in pairwise(accumulate(lengths, initial=0)):
        yield dict(zip(names[begin:end], values[begin:end], strict=True))


def _properties(headers: dict[str, bytes | None]) -> tuple[Values, Properties]:
    """Return the values of the columns, and all other properties."""
    values: Values = {}
    others: Properties = {}
    for name, content in headers.items():
        column = _COLUMN_OF.get(name)
        if column is None:
            if not name.startswith(_OF_HUB):
                others[name] = None if content is None else _other(name, content)
        elif content is not None and (content != _NULL or name in _OF_MESSAGE):
            try:
                values[column] = _moment(content) if column in _TIMES else _text(content)
            except (ValueError, OverflowError):
                others[name] = _hexadecimal(content)
    return values, others


@lru_cache(_CACHED)
def _other(name: str, content: bytes) -> str | None:
    try:
        return _text(content) if name in _OF_MESSAGE else _any(content)
    except (ValueError, OverflowError):
        return _hexadecimal(content)


@lru_cache(_CACHED)
def _text(content: bytes) -> str | None:
    return _as_text(decoded(content)) if _is_no_text(content) else content.decode()


def _any(content: bytes) -> str | None:
    try:
        value = decoded(content)
    except ValueError:
        return content.decode()
    return _as_text(value)


def _moment(content: bytes) -> datetime | None:
    value = decoded(content) if _is_no_text(content) else content.decode()
    if isinstance(value, str):
        if not value.isdecimal():
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        value = int(value)
    if isinstance(value, int):
        return moment_of(value)
    if not isinstance(value, datetime):
        raise ValueError("no time")
    return value


def _is_no_text(content: bytes) -> bool:
    """Return True if no UTF-8 text begins like this: with a continuation byte, or NUL."""
    return bool(content) and (content[0] == 0 or 0x80 <= content[0] < 0xC2)


def _as_text(value: AmqpValue) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)


def _hexadecimal(content: bytes) -> str:
    return f"0x{content.hex()}"
