"""Files of Event Hubs Capture, as the service writes them: its Avro schema, its paths, empty ones too."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro

_VALUES = {"type": "map", "values": ["long", "double", "string", "bytes", "null"]}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "EventData",
    "namespace": "Microsoft.ServiceBus.Messaging",
    "fields": [
        {"name": "SequenceNumber", "type": "long"},
        {"name": "Offset", "type": "string"},
        {"name": "EnqueuedTimeUtc", "type": "string"},
        {"name": "SystemProperties", "type": _VALUES},
        {"name": "Properties", "type": _VALUES},
        {"name": "Body", "type": ["null", "bytes"]},
    ],
}


@dataclass(frozen=True)
class Event:
    """One event of a hub."""

    number: int
    enqueued: datetime
    body: bytes | None = b""
    key: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    system: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        return {
            "SequenceNumber": self.number,
            "Offset": str(self.number * 100),
            "EnqueuedTimeUtc": as_captured(self.enqueued),
            "SystemProperties": {
                **self.system,
                **({} if self.key is None else {"x-opt-partition-key": self.key}),
            },
            "Properties": dict(self.properties),
            "Body": self.body,
        }


def as_captured(moment: datetime) -> str:
    """Return a time like `11/16/2016 4:44:11 PM`, without leading zeros and fractions."""
    at = moment.astimezone(UTC)
    half = "AM" if at.hour < 12 else "PM"
    return f"{at.month}/{at.day}/{at.year} {at.hour % 12 or 12}:{at.minute:02}:{at.second:02} {half}"


def capture_file(events: Iterable[Event]) -> bytes:
    content = io.BytesIO()
    fastavro.writer(content, SCHEMA, [event.record() for event in events])
    return content.getvalue()


def blocks_of(*blocks: Iterable[Event]) -> bytes:
    """Return a file with these blocks, which may be empty, although fastavro never writes an empty one."""
    schema = fastavro.parse_schema(SCHEMA)
    head = capture_file(())
    content = io.BytesIO()
    content.write(head)
    for events in blocks:
        block = io.BytesIO()
        records = [event.record() for event in events]
        for record in records:
            fastavro.schemaless_writer(block, schema, record)
        for number in (len(records), len(block.getvalue())):
            fastavro.schemaless_writer(content, "long", number)
        # A block ends with the sync marker, which is the last 16 bytes of the file header.
        content.write(block.getvalue() + head[-16:])
    return content.getvalue()


@dataclass(frozen=True)
class CaptureFolder:
    """The archive of one hub on this machine.

    Args:
        folder: Folder at which the paths of the files begin.
        namespace: The hub's namespace.
        hub: Name of the hub.
    """

    folder: Path
    namespace: str
    hub: str

    def path(self, partition: int, moment: datetime) -> Path:
        return self.folder / f"{self.namespace}/{self.hub}/{partition}/{moment:%Y/%m/%d/%H/%M/%S}.avro"

    def write(self, partition: int, moment: datetime, events: Iterable[Event] = ()) -> Path:
        file = self.path(partition, moment)
        file.parent.mkdir(parents=True, exist_ok=True)
        # A blob becomes visible as a whole.
        part = file.with_suffix(".part")
        part.write_bytes(capture_file(events))
        return part.rename(file)
