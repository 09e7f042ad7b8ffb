"""What is stale behind a backfill: the tables that were made of the rows that it replaces, in their order.

Nothing here reads a row. Which pipelines read which tables is declared. Which windows are stale follows from
the columns of time: a column that is the start or the end of a window is proven to be by Spark's plan; one
that has the name of the event time is taken for it, and where neither leads on, no range is told.
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

# What a reader makes by itself of rows that are replaced in its source.
# `follows`: its change feed has them. `skips`: such commits are left out. `stops`: its stream ends with an
# error. `joins`: its next batches use the new rows, those it has written do not.
Sees = Literal["follows", "skips", "stops", "joins"]

# What makes its tables right: nothing more, a backfill of the range, one whose range a person knows, a reset.
Way = Literal["nothing", "backfill", "backfill of a time", "reset"]

Range = tuple[datetime, datetime]
# By column of a table, the times of its stale rows.
Times = Mapping[str, Range]

_SEES_WORDS = {
    "follows": "reads the replaced rows from the change feed; those behind its watermark are late",
    "skips": "leaves the replaced rows out (`changes: skip`)",
    "stops": "its stream stops at them (TIDE-SRC-009): give its source `changes: skip` or `read_changes`",
    "joins": "joins its next batches with the new rows; what it has written stays as it is",
}


@dataclass(frozen=True)
class Reader:
    """A pipeline as far as it matters here.

    Args:
        spec: Its declaration.
        origin: What its rows are made of; None if nobody has looked at its code yet.
    """

    spec: PipelineSpec
    origin: RowOrigin | None


@dataclass(frozen=True)
class Stale:
    """One pipeline whose tables are stale.

    Args:
        pipeline: Its name.
        reads: Which stale tables it reads.
        writes: Its tables.
        sees: What it makes of the replaced rows by itself.
        range: Event time of what is stale, at least; None if it cannot be told.
        way: What makes its tables right.
    """

    pipeline: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    sees: Sees
    range: Range | None
    way: Way

    @property
    def fix(self) -> str:
        """The command; empty if nothing is to be done."""
        if self.way == "backfill" and self.range is not None:
            start, end = (at.isoformat() for at in self.range)
            return f"tidemill backfill plan {self.pipeline} --from {start} --to {end}"
        if self.way == "reset":
            told = "its plan tells which rows it would repeat"
            return f"tidemill checkpoint reset {self.pipeline} --from earliest ({told})"
        if self.way == "nothing":
            return ""
        return f"tidemill backfill plan {self.pipeline} --from BEGIN --to END, of a time of yours"

    def lines(self) -> list[str]:
        """As a person reads it."""
        span = "of unknown time" if self.range is None else " to ".join(at.isoformat() for at in self.range)
        return [
            f"  stale     {', '.join(self.writes)}: {span}, by {self.pipeline} from {', '.join(self.reads)}",
            f"            {_SEES_WORDS[self.sees]}",
            *([f"            {self.fix}"] if self.fix else []),
        ]

    def as_document(self) -> dict[str, Any]:
        """Plain data."""
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
    """What is stale behind a backfill of a pipeline, in the order in which it is to be computed again.

    Pipelines that have written nothing yet, and those whose file is wrong, are left out.

    Args:
        store: The storage.
        pipeline: What is processed again.
        times: The range of event time; None for another one.
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
        # It cannot run as it is.
        return None


def stale_parts(readers: Mapping[str, Reader], first: str, times: Range | None) -> list[Stale]:
    """The same, of what is known of all pipelines.

    Args:
        readers: All pipelines that may matter, by name.
        first: Which one is processed again.
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
    """Event time of what it makes of the stale rows: of whole windows, where it makes such."""
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
    """The columns of time of each table, and what of them is stale."""
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
    """What makes its tables right. Beside a stream only whole windows can be replaced by time."""
    if len(reader.spec.streams) > 1:
        return "reset"
    source, origin = reader.spec.source.delta, reader.origin
    if source is not None and source.read_changes:
        return "nothing" if origin is None or not origin.stateful else "reset"
    if origin is not None and origin.window is None and (source is not None or origin.record is None):
        return "reset"
    return "backfill of a time" if span is None else "backfill"
