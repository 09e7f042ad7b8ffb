"""The events of one Capture file, in Capture's own Avro schema.

Capture writes EnqueuedTimeUtc as `11/16/2016 4:44:11 PM`, in whole seconds. If the system properties contain
the time in milliseconds, that time is used, because a consumer of the hub receives it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

import fastavro
from fastavro.schema import SchemaParseException

from tidemill.errors import DataError

CapturedValue = int | float | str | bytes | None

_FIELDS = frozenset({"SequenceNumber", "EnqueuedTimeUtc", "SystemProperties", "Properties", "Body"})
_ENQUEUED = "x-opt-enqueued-time"
_KEY = "x-opt-partition-key"
# Types of a property's value: those of Capture, and the narrower ones in copies by other tools.
_VALUES = frozenset({"null", "boolean", "int", "long", "float", "double", "string", "bytes"})
# Exceptions of fastavro for damaged bytes.
_DAMAGE = (
    EOFError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    OverflowError,
    SchemaParseException,
    zlib.error,
)
_TIME = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}) (\d{1,2}):(\d\d):(\d\d) ([AP])M")


@dataclass(frozen=True)
class CapturedEvent:
    """One event.

    Args:
        number: Its sequence number, which equals its Kafka offset.
        enqueued: Time at which the hub received it.
        key: Its partition key, as a Kafka consumer receives it; None without one.
        body: Its payload; None for an event without one, which is a tombstone in Kafka.
        system: Its system properties, with the types that Capture keeps.
        properties: Its application properties, with the types that Capture keeps.
    """

    number: int
    enqueued: datetime
    key: bytes | None
    body: bytes | None
    system: Mapping[str, CapturedValue]
    properties: Mapping[str, CapturedValue]


def read_events(path: str, file: BinaryIO) -> Iterator[CapturedEvent]:
    """Yield the events of a file in its order; none of an empty file, which Capture writes if idle.

    Args:
        path: Its path, for errors.
        file: Its content; read block by block.

    Raises:
        DataError: TIDE-HUB-001, if the file is truncated or damaged; TIDE-HUB-002, if it is not Capture's.
    """
    read = 0
    try:
        reader = fastavro.reader(file)
        _check_schema(path, reader.writer_schema)
        for record in reader:
            yield _event(record)
            read += 1
    except _DAMAGE as error:
        raise _damaged(path, read, error) from error


def _event(record: Any) -> CapturedEvent:
    system = record["SystemProperties"] or {}
    key = system.get(_KEY)
    return CapturedEvent(
        record["SequenceNumber"],
        _enqueued(record["EnqueuedTimeUtc"], system),
        None if key is None else _bytes(key),
        record["Body"],
        system,
        record["Properties"] or {},
    )


def _enqueued(text: str, system: Mapping[str, Any]) -> datetime:
    milliseconds = system.get(_ENQUEUED)
    if isinstance(milliseconds, int):
        seconds, rest = divmod(milliseconds, 1000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)
    found = _TIME.fullmatch(text)
    if found is None:
        # The format in copies that other tools have written.
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    month, day, year, hour, minute, second = map(int, found.groups()[:6])
    # 12 AM is midnight, 12 PM noon.
    hour = hour % 12 + (12 if found[7] == "P" else 0)
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _check_schema(path: str, schema: Any) -> None:
    declared = schema.get("fields", ()) if isinstance(schema, dict) else ()
    fields = {field["name"]: field["type"] for field in declared}
    lacks = sorted(_FIELDS - set(fields))
    facts = {"lacks": ", ".join(lacks)} if lacks else _not_properties(fields)
    if facts:
        raise DataError(
            "TIDE-HUB-002",
            "This is not a file of Event Hubs Capture.",
            facts={"file": path, **facts},
            fix="correct `capture.path` and `capture.format`, or move the file out of the archive",
            runbook="backfill",
        )


def _not_properties(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the first field that is not a map of plain values, and its type; empty if there is none."""
    for name in ("SystemProperties", "Properties"):
        for part in _members(fields[name]):
            is_map = isinstance(part, dict) and part.get("type") == "map"
            values = {_plain(value) for value in _members(part["values"])} if is_map else {_plain(part)}
            if not values <= (_VALUES if is_map else {"null"}):
                return {"field": name, "type": str(part)}
    return {}


def _members(schema: Any) -> list[Any]:
    return schema if isinstance(schema, list) else [schema]


def _plain(schema: Any) -> str:
    """Return the name of a primitive type; for another schema, its text, which is not such a name."""
    is_wrapped = isinstance(schema, dict) and "logicalType" not in schema
    return str(schema["type"] if is_wrapped else schema)


def _damaged(path: str, read: int, error: Exception) -> DataError:
    return DataError(
        "TIDE-HUB-001",
        "A file of the archive is cut off or damaged.",
        # Without the reader's message, which may quote an event.
        facts={"file": path, "events_before": read, "reason": type(error).__name__},
        fix="bring the whole file back; if it is lost, move it away, and its events are shown as a gap",
        runbook="backfill",
    )
