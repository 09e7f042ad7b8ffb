"""The part of a declaration that goes into ledger entries, for the gate to compare."""

from __future__ import annotations

from tidemill.ledger.entry import Shape
from tidemill.spec.pipeline import PipelineSpec


def shape_of(spec: PipelineSpec) -> Shape:
    """What of the declaration a checkpoint depends on."""
    return Shape(
        source=spec.source.kind,
        event_time=None if spec.event_time is None else spec.event_time.column,
        output_mode=spec.output_mode,
        shuffle_partitions=spec.run.shuffle_partitions,
        tables=tuple(sorted(sink.table for sink in spec.delta_sinks)),
    )
