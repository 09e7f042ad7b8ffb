"""Checks of the combination of a pipeline's parts against the table in `capabilities.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from tidemill.spec.capabilities import (
    COLUMNS_KEPT_ALIKE,
    COLUMNS_WITHOUT_PLACE,
    SAME_SINK,
    SINKS_DISAGREE,
    OutputMode,
    refusal_of,
)
from tidemill.spec.refusal import Cell, RefusedError
from tidemill.spec.without_batches import NEEDS_BATCHES, ONE_SINK, WITHOUT_BATCHES, needs_batches

if TYPE_CHECKING:
    from tidemill.spec.pipeline import PipelineSpec
    from tidemill.spec.project import Pipeline
    from tidemill.spec.sinks import Sink


def check_combinations(spec: PipelineSpec) -> None:
    """Check a pipeline file independently of its environment.

    Raises:
        RefusedError: TIDE-MODE-…
    """
    for place, cell in _cells(spec, "", spec.run.mode):
        if (refusal := refusal_of(cell)) is not None:
            raise RefusedError(refusal, **_found(place, cell))


def check_here(pipeline: Pipeline, mode: str | None = None) -> None:
    """Check a pipeline in its environment.

    Args:
        pipeline: The pipeline.
        mode: Mode of the run; the declared mode by default.

    Raises:
        SpecError: TIDE-MODE-…
    """
    spec = pipeline.spec
    for place, cell in _cells(spec, pipeline.environment.spec.runtime, mode or spec.run.mode):
        if (refusal := refusal_of(cell)) is not None:
            facts = {"pipeline": pipeline.name, "environment": pipeline.environment.name}
            raise refusal.error(facts | _found(place, cell))


def check_sinks(sinks: Sequence[Sink]) -> None:
    """Check that the sinks of a pipeline are compatible.

    Raises:
        RefusedError: TIDE-MODE-020, -021.
    """
    # Folders are compared elsewhere as paths, with their subfolders (TIDE-SPEC-048).
    places = [sink.place for sink in sinks if sink.files is None]
    repeated = sorted({place for place in places if places.count(place) > 1})
    if repeated:
        raise RefusedError(SAME_SINK, place=", ".join(repeated))
    needed = modes_needed(sinks)
    if len(needed) > 1:
        found = ", ".join(f"{name} needs {mode}" for mode, name in sorted(needed.items()))
        raise RefusedError(SINKS_DISAGREE, found=found)


def check_new_columns(spec: PipelineSpec) -> None:
    """Check that the sinks accept columns that a source adds, if no transform selects columns.

    Raises:
        RefusedError: TIDE-MODE-024, -025.
    """
    files = [stream.source.files for stream in spec.streams.values()]
    if spec.transform is not None or not any(f and f.schema_evolution == "add_columns" for f in files):
        return
    for table in spec.delta_sinks:
        if table.transform is None and not table.adds_columns:
            raise RefusedError(COLUMNS_WITHOUT_PLACE, table=table.table)
    for sink in spec.sinks:
        if (sink.files or sink.memory) and sink.chosen.transform is None:
            raise RefusedError(COLUMNS_KEPT_ALIKE, sink=sink.place)


def check_without_batches(spec: PipelineSpec) -> None:
    """Check that nothing needs batches if the trigger has none.

    Raises:
        RefusedError: TIDE-MODE-026, -027.
    """
    trigger = spec.run.trigger_of(spec.run.mode)
    if trigger not in WITHOUT_BATCHES:
        return
    if len(spec.sinks) > 1:
        raise RefusedError(ONE_SINK, trigger=trigger, sinks=", ".join(sink.place for sink in spec.sinks))
    if keys := sorted({*needs_batches(spec)}):
        raise RefusedError(NEEDS_BATCHES, trigger=trigger, keys=", ".join(keys))


def modes_needed(sinks: Sequence[Sink]) -> dict[OutputMode, str]:
    """Return each output mode that a sink needs, with the first sink that needs it."""
    found: dict[OutputMode, str] = {}
    for sink in sinks:
        if sink.output_mode is not None:
            of_table = f" ({sink.delta.mode})" if sink.delta is not None else ""
            found.setdefault(sink.output_mode, f"{sink.place}{of_table}")
    return found


def _cells(spec: PipelineSpec, runtime: str, mode: str) -> Iterator[tuple[int, Cell]]:
    """Yield the combination for each stream and each sink, with the sink's index."""
    streams = [stream.source.kind for stream in spec.streams.values()]
    trigger = spec.run.trigger_of(mode)
    for source, (place, sink) in product(streams, enumerate(spec.sinks)):
        wanted = sink.chosen.mode or spec.output_mode
        yield place, Cell(runtime, source, mode, trigger, sink.kind, wanted)


def _found(place: int, cell: Cell) -> dict[str, object]:
    sink = f"sinks[{place}].{cell.sink}"
    return {"source": cell.source, "sink": sink, "mode": cell.run, "trigger": cell.trigger}
