"""Stale tables downstream of a backfill, which were made of the replaced rows, in dependency order.

No row is read here. The declarations show which pipelines read which tables. The time columns show which
windows are stale. Spark's plan proves that a column is the start or the end of a window. A column with the
name of the event time is assumed to be it. If neither applies, no range is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tidemill.backfill.row_origin import EventWindow, RowOrigin, read_origin
from tidemill.errors import SpecError
from tidemill.ledger.read import open_table
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Pipeline, resolve_pipeline
from tidemill.spec.table_graph import build_graph
from tidemill.storage.store import Store

# How a reader handles rows that are replaced in its source. `follows`: its change feed contains them.
# `skips`: such commits are skipped. `stops`: its stream ends with an error. `joins`: its next batches use the
# new rows, but its written rows do not change.
Sees = Literal["follows", "skips", "stops", "joins"]

# How its tables are corrected: by nothing more, a backfill of the range, a backfill of a range that the user
# must choose, or a reset.
Way = Literal["nothing", "backfill", "backfill of a time", "reset"]

Range = tuple[datetime, datetime]
# Times of the stale rows, by column of a table.
Times = Mapping[str, Range]

_SEES_WORDS = {
    "follows": "reads the replaced rows from the change feed; those behind its watermark are late",
    "skips": "leaves the replaced rows out (`changes: skip`)",
    "stops": "its stream stops at them (TIDE-SRC-009): give its source `changes: skip` or `read_changes`",
    "joins": "joins its next batches with the new rows; what it has written stays as it is",
}


@dataclass(frozen=True)
class Reader:
    """The relevant facts about a pipeline.

    Args:
        spec: Its declaration.
        origin: Origin of its rows; None if its code was not analysed yet.
    """

    spec: PipelineSpec
    origin: RowOrigin | None


@dataclass(frozen=True)
class Stale:
    """One pipeline whose tables are stale.

    Args:
        pipeline: Its name.
        reads: Stale tables that it reads.
        writes: Its tables.
        sees: Description of how the pipeline handles the replaced rows by itself.
        range: Event time of the stale rows, at least; None if unknown.
        way: Description of how its tables are corrected.
    """

    pipeline: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    sees: Sees
    range: Range | None
    way: Way

    @property
    def fix(self) -> str:
        """Return the command; empty if none is needed."""
        if self.way == "backfill" and self.range is not None:
            start, end = (at.isoformat() for at in self.range)
            return f"tidemill backfill plan {self.pipeline} --from {start} --to {end}"
        if self.way == "reset":
            told = "its plan tells which rows it would repeat"
            return f"tidemill checkpoint reset {self.pipeline} --from earliest ({told})"
        if self.way == "nothing":
            return ""
        return f"tidemill backfill plan {self.pipeline} --from BEGIN --to END, for a range that you choose"

    def lines(self) -> list[str]:
        """Return readable lines."""
        span = "of unknown time" if self.range is None else " to ".join(at.isoformat() for at in self.range)
        return [
            f"  stale     {', '.join(self.writes)}: {span}, by {self.pipeline} from {', '.join(self.reads)}",
            f"            {_SEES_WORDS[self.sees]}",
            *([f"            {self.fix}"] if self.fix else []),
        ]

    def as_document(self) -> dict[str, Any]:
        """Return plain data."""
        times = None if self.range is None else [at.isoformat() for at in self.range]
        return {
            "pipeline": self.pipeline,
            "reads": self.reads,
            "writes": self.writes,
            "sees": self.sees,
            "range": times,
            "way": self.way,
            "fix": self.fix,
        }


def stale_behind(store: Store, pipeline: Pipeline, times: Range | None) -> list[Stale]:
    """Return the stale pipelines downstream of a backfill, in the order in which they must be recomputed.

    Pipelines that have not written anything, and those with an invalid file, are left out.

    Args:
        store: The storage.
        pipeline: The pipeline that is backfilled.
        times: The range of event time; None for another range.
    """
    readers = {pipeline.name: Reader(pipeline.spec, read_origin(store, pipeline))}
    for name in pipeline.environment.project.pipeline_names():
        other = None if name == pipeline.name else _resolved(pipeline, name)
        if other is None or not _read_tables(other.spec):
            continue
        tables = (pipeline.layout.table(sink.table) for sink in other.spec.delta_sinks)
        if any(open_table(path) is not None for path in tables):
            readers[name] = Reader(other.spec, read_origin(store, other))
    return stale_parts(readers, pipeline.name, times)


def _resolved(pipeline: Pipeline, name: str) -> Pipeline | None:
    try:
        return resolve_pipeline(pipeline.environment, name)
    except SpecError:
        # An invalid pipeline cannot run.
        return None


def stale_parts(readers: Mapping[str, Reader], first: str, times: Range | None) -> list[Stale]:
    """Return the stale pipelines, from the facts about all pipelines.

    Args:
        readers: All pipelines that may matter, by name.
        first: The pipeline that is backfilled.
        times: Its range of event time.
    """
    tables: dict[str, Times] = _times_of(readers[first], times)
    found: list[Stale] = []
    for name in build_graph({name: reader.spec for name, reader in readers.items()}).order():
        reader = readers[name]
        reads = [table for table in _read_tables(reader.spec) if table in tables]
        if name == first or not reads:
            continue
        part = _stale(name, reader, reads, tables)
        found.append(part)
        tables.update(_times_of(reader, part.range))
    return found


def _read_tables(spec: PipelineSpec) -> list[str]:
    streamed = [stream.source.delta.table for stream in spec.streams.values() if stream.source.delta]
    return list(dict.fromkeys([*streamed, *spec.tables.values()]))


def _stale(name: str, reader: Reader, reads: Sequence[str], tables: Mapping[str, Times]) -> Stale:
    span = _range_read(reader, reads, tables)
    return Stale(
        pipeline=name,
        reads=tuple(reads),
        writes=tuple(sink.table for sink in reader.spec.delta_sinks),
        sees=_sees(reader.spec, reads),
        range=span,
        way=_way(reader, span),
    )


def _sees(spec: PipelineSpec, reads: Sequence[str]) -> Sees:
    sources = [stream.source.delta for stream in spec.streams.values() if stream.source.delta]
    streamed = [source for source in sources if source.table in reads]
    if not streamed:
        return "joins"
    if all(source.read_changes for source in streamed):
        return "follows"
    return "skips" if all(source.changes == "skip" or source.read_changes for source in streamed) else "stops"


def _range_read(reader: Reader, reads: Sequence[str], tables: Mapping[str, Times]) -> Range | None:
    """Return the event time of the rows that it makes from stale rows; whole windows if it makes windows."""
    if len(reader.spec.streams) > 1:
        return None
    source, event_time = reader.spec.source.delta, reader.spec.event_time
    # Rows that are joined with a stale table may be of any time.
    if source is None or event_time is None or list(reads) != [source.table]:
        return None
    span = tables[source.table].get(event_time.column)
    window = None if reader.origin is None else reader.origin.window
    if span is None or window is None or window.slide <= window.length * 0:
        return span
    return window.starts_in(span[0] - (window.length - window.slide), span[1])


def _times_of(reader: Reader, span: Range | None) -> dict[str, Times]:
    """Return the time columns of each table, with their stale ranges."""
    return {sink.table: _columns_of(reader, sink.table, span) for sink in reader.spec.delta_sinks}


def _columns_of(reader: Reader, table: str, span: Range | None) -> Times:
    if span is None:
        return {}
    window = None if reader.origin is None else reader.origin.of_table(table).window
    if window is not None:
        return _window_columns(window, span)
    return {} if reader.spec.event_time is None else {reader.spec.event_time.column: span}


def _window_columns(window: EventWindow, span: Range) -> Times:
    starts = dict.fromkeys(window.start_columns, span)
    ends = (span[0] + window.length, span[1] + window.length)
    return {**starts, **dict.fromkeys(window.end_columns, ends)}


def _way(reader: Reader, span: Range | None) -> Way:
    """Return how its tables are corrected; while a stream runs, only whole windows can be replaced."""
    if len(reader.spec.streams) > 1:
        return "reset"
    source, origin = reader.spec.source.delta, reader.origin
    if source is not None and source.read_changes:
        return "nothing" if origin is None or not origin.stateful else "reset"
    if origin is not None and origin.window is None and (source is not None or origin.record is None):
        return "reset"
    return "backfill of a time" if span is None else "backfill"
