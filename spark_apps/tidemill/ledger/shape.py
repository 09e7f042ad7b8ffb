"""The part of a declaration that goes into ledger entries, for the gate to compare."""

from __future__ import annotations

from datetime import timedelta

from tidemill.ledger.entry import Shape, SinkShape
from tidemill.spec.payload import Payload
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.sinks import Sink
from tidemill.spec.units import format_duration


def shape_of(spec: PipelineSpec) -> Shape:
    """What of the declaration checkpoint and tables depend on."""
    time, files = spec.event_time, spec.source.files
    return Shape(
        source=spec.source.kind,
        event_time=None if time is None else time.column,
        output_mode=spec.output_mode,
        shuffle_partitions=spec.run.shuffle_partitions,
        tables=tuple(sorted(sink.table for sink in spec.delta_sinks)),
        path="" if files is None else files.path,
        format="" if files is None else files.format,
        columns="" if files is None else files.schema_ or "",
        payload=_payload(spec.payload),
        watermark=_duration(None if time is None else time.watermark),
        window=_duration(None if time is None else time.window),
        sinks={_name(sink): _sink(sink) for sink in spec.sinks},
    )


def _payload(payload: Payload | None) -> str:
    """What decides how a record is read beside its schema files, whose contents are in the code's digest."""
    if payload is None:
        return ""
    if payload.csv is not None:
        return f"csv separated by {payload.csv.separator!r}"
    framing = "" if payload.avro is None else f" {payload.avro.framing}"
    return f"{payload.format}{framing}"


def _duration(declared: timedelta | None) -> str:
    return "" if declared is None else format_duration(declared)


def _name(sink: Sink) -> str:
    if sink.delta is not None:
        return sink.delta.table
    if sink.files is not None:
        return f"files {sink.files.path}"
    return sink.kind if sink.kafka is None else f"topic {sink.kafka.topic}"


def _sink(sink: Sink) -> SinkShape:
    mode, key = ("", ()) if sink.delta is None else (sink.delta.mode, tuple(sink.delta.key))
    chosen = sink.chosen
    return SinkShape(mode=mode, key=key, where=chosen.where or "", transform=chosen.transform or "")
