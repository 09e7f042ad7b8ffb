"""The proven origin of a pipeline's rows, which determines what a backfill may replace.

It is derived from the analysed plan of the transform (`analysed_plan.py`) and never declared, so code cannot
contradict it. It is stored under the digest of its code, so that Airflow and the command line can plan a
backfill without Spark.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict

from tidemill import __version__
from tidemill.errors import SpecError
from tidemill.names import LINEAGE_COLUMNS
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration
from tidemill.storage.store import Store

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventWindow(BaseModel):
    """The event-time windows from which rows are computed, and the columns that identify a row's window.

    Args:
        kind: Kind of window; `session` windows have neither length nor slide.
        length: Time from a window's start to its end.
        slide: Time from one window's start to the next one's; the length for tumbling windows.
        offset: Offset of the starts from the epoch.
        start_columns: Result columns with the window's start.
        end_columns: Result columns with its end.
        struct_columns: Result columns with both, as `start` and `end`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    length: timedelta = timedelta(0)
    slide: timedelta = timedelta(0)
    offset: timedelta = timedelta(0)
    start_columns: tuple[str, ...] = ()
    end_columns: tuple[str, ...] = ()
    struct_columns: tuple[str, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        """Return all columns that identify a window."""
        return frozenset((*self.start_columns, *self.end_columns, *self.struct_columns))

    def last_end(self, end: datetime) -> datetime:
        """Return the end of the last window that starts before `end`, which is itself a start."""
        return end - self.slide + self.length

    def starts_in(self, start: datetime, end: datetime) -> tuple[datetime, datetime]:
        """Return the smallest range around another one that begins and ends at window starts."""
        below = start - (start - _EPOCH - self.offset) % self.slide
        above = end + (_EPOCH + self.offset - end) % self.slide
        return below, above


class SinkOrigin(BaseModel):
    """Effect of a sink's own transform on the rows of the result.

    Args:
        columns: Unchanged columns: column of the table by column of the result.
        reason: Reason why it does not work row by row; empty if it does.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    columns: dict[str, str] = {}
    reason: str = ""


class RowOrigin(BaseModel):
    """Origin of the rows of a result.

    Args:
        record: Result column by lineage column (`kafka_offset`, …), if each row is made of one record and
            names it; None otherwise.
        window: Window, if each row is made of all records of one window; None otherwise.
        windows: Lengths of all time windows that the transform makes, even if nothing is proven.
        stateful: True if a row depends on records of earlier batches.
        reason: Reason why neither is proven.
        sinks: Effects of sinks with their own transform, by table.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    record: dict[str, str] | None = None
    window: EventWindow | None = None
    windows: tuple[timedelta, ...] = ()
    stateful: bool = False
    reason: str = ""
    sinks: dict[str, SinkOrigin] = {}

    def of_table(self, table: str) -> RowOrigin:
        """Return the origin of one table's rows, after the sink's own transform."""
        shaped = self.sinks.get(table)
        if shaped is None:
            return self
        whose = f"the transform of the sink {table}"
        if shaped.reason:
            return RowOrigin(stateful=True, reason=f"{whose}: {shaped.reason}")
        kept = shaped.columns
        missing = [name for name in (self.record or {}).values() if name not in kept]
        if missing:
            return RowOrigin(reason=f"{whose} does not keep {', '.join(missing)}")
        record = self.record and {lineage: kept[name] for lineage, name in self.record.items()}
        window = self.window and self.window.model_copy(
            update={
                part: tuple(kept[name] for name in getattr(self.window, part) if name in kept)
                for part in ("start_columns", "end_columns", "struct_columns")
            }
        )
        return RowOrigin(record=record, window=window, stateful=self.stateful, reason=self.reason)


def plain_origin(pipeline: Pipeline) -> RowOrigin:
    """Return the origin of rows without a transform: the records, if they have an address."""
    if pipeline.spec.source.is_kafka:
        return RowOrigin(record={name: name for name in LINEAGE_COLUMNS})
    return RowOrigin(reason=f"rows of a {pipeline.spec.source.kind} source do not name their record")


def read_origin(store: Store, pipeline: Pipeline) -> RowOrigin | None:
    """Return the origin found in the current code; None if it was not analysed yet."""
    if not _has_code(pipeline):
        return plain_origin(pipeline)
    document = store.read_json(_path(pipeline))
    return None if document is None else RowOrigin.model_validate(document)


def keep_origin(store: Store, pipeline: Pipeline, origin: RowOrigin) -> None:
    """Store the origin found in the current code."""
    if _has_code(pipeline):
        store.create_json(_path(pipeline), origin.model_dump(mode="json"))


def _has_code(pipeline: Pipeline) -> bool:
    return pipeline.spec.transform is not None or any(s.transform for s in pipeline.spec.delta_sinks)


def _path(pipeline: Pipeline) -> str:
    found_in = hashlib.sha256(f"{__version__} {pipeline.definition_digest}".encode()).hexdigest()[:16]
    return pipeline.layout.row_origin(pipeline.name, found_in)


def check_declared(pipeline: Pipeline, origin: RowOrigin) -> None:
    """Raise if the declaration contradicts the code.

    Raises:
        SpecError: TIDE-SPEC-042.
    """
    lengths = origin.windows if origin.window is None else (origin.window.length,)
    for stream in pipeline.spec.streams.values():
        declared = None if stream.event_time is None else stream.event_time.window
        if declared is not None and declared not in lengths:
            found = f"windows of {', '.join(map(format_duration, lengths))}" if lengths else "no windows"
            raise _contradiction(pipeline, "event_time.window", format_duration(declared), found)
    for sink in pipeline.spec.delta_sinks:
        window = origin.of_table(sink.table).window
        if sink.time is not None and window is not None and sink.time not in window.start_columns:
            found = f"windows start in {', '.join(window.start_columns) or 'no column'}"
            raise _contradiction(pipeline, f"time of {sink.table}", sink.time, found)


def _contradiction(pipeline: Pipeline, key: str, declared: str, found: str) -> SpecError:
    return SpecError(
        "TIDE-SPEC-042",
        "The pipeline file says something else of the result than the transform does.",
        facts={"pipeline": pipeline.name, "key": key, "declared": declared, "in_the_transform": found},
        fix="leave the key out: windows are found in the transform",
    )
