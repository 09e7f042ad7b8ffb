"""The part of a declaration that goes into ledger entries, for the gate to compare."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tidemill.ledger.entry import Shape, SinkShape, StreamShape
from tidemill.names import SOURCE_NAME
from tidemill.spec.change_feed import ChangeFeed
from tidemill.spec.payload import Payload
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.sinks import Sink
from tidemill.spec.sources import FilesSource
from tidemill.spec.units import format_duration


def shape_of(spec: PipelineSpec) -> Shape:
    """Return the part of the declaration that checkpoint and tables depend on."""
    streams = {name: _stream(stream) for name, stream in spec.streams.items()}
    shapes = {name: StreamShape(**found) for name, found in streams.items()}
    several: dict[str, Any] = {"source": "several", "streams": shapes}
    return Shape(
        **(several if spec.has_named_streams else streams[SOURCE_NAME]),
        output_mode=spec.output_mode,
        shuffle_partitions=spec.run.shuffle_partitions,
        tables=tuple(sorted(sink.table for sink in spec.delta_sinks)),
        sinks={sink.place: _sink(sink) for sink in spec.sinks},
    )


def _stream(spec: PipelineSpec) -> dict[str, Any]:
    time, files = spec.event_time, spec.source.files
    return {
        "source": spec.source.kind,
        "event_time": None if time is None else time.column,
        "path": "" if files is None else files.path,
        "format": _format(spec),
        "columns": "" if files is None else _columns(files),
        "payload": _payload(spec.payload),
        "watermark": _duration(None if time is None else time.watermark),
        "window": _duration(None if time is None else time.window),
    }


def _format(spec: PipelineSpec) -> str:
    table = spec.source.delta
    return "changes" if table is not None and table.read_changes else spec.file_format


def _columns(files: FilesSource) -> str:
    if not files.discovers:
        return files.schema_ or ""
    hints = f", hinted: {files.schema_hints}" if files.schema_hints else ""
    return f"discovered, {files.schema_evolution}{hints}"


def _payload(payload: Payload | None) -> str:
    """Return the settings that decide how a record is read; the code's digest covers the schema files."""
    if payload is None:
        return ""
    kept = " with tombstones" if payload.chosen.tombstones == "keep" else ""
    if payload.csv is not None:
        return f"csv separated by {payload.csv.separator!r}{kept}"
    kept = f" by a registry{kept}" if payload.asks_registry else kept
    if payload.protobuf is not None:
        return f"protobuf {payload.protobuf.framing} {payload.protobuf.message}{kept}"
    framing = "" if payload.avro is None else f" {payload.avro.framing}"
    return f"{payload.format}{framing}{kept}"


def _feed(feed: ChangeFeed) -> str:
    """Return the settings that decide how changes are applied; undeclared newer keys are left out."""
    undeclared = {name for name in ("truncate", "unchanged") if getattr(feed, name) is None}
    # The time for which deletes are remembered may change at any time.
    text: str = feed.model_dump_json(exclude={"forget_deletes_after", *undeclared})
    return text


def _duration(declared: timedelta | None) -> str:
    return "" if declared is None else format_duration(declared)


def _sink(sink: Sink) -> SinkShape:
    mode, key = ("", ()) if sink.delta is None else (sink.delta.mode, tuple(sink.delta.key))
    feed = None if sink.delta is None else sink.delta.cdc
    chosen = sink.chosen
    return SinkShape(
        mode=mode,
        key=key,
        cdc="" if feed is None else _feed(feed),
        where=chosen.where or "",
        transform=chosen.transform or "",
    )
