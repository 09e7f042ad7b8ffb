"""What is proven of where the rows of a pipeline come from; a backfill decides by it what it may replace.

Found in the analysed plan of the transform (`analysed_plan.py`), never declared: code cannot contradict it.
It stands in storage under the digest of the code it was found in, so that Airflow and the command line,
which have no Spark, can plan a backfill.
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
    """The windows of event time that rows are computed of, and where a row says which one is its own.

    Args:
        kind: `session` windows have neither length nor slide.
        length: From a window's start to its end.
        slide: From one window's start to the next one's; the length for tumbling windows.
        offset: Of the starts against the epoch.
        start_columns: Result columns that hold the window's start.
        end_columns: Result columns that hold its end.
        struct_columns: Result columns that hold both, as `start` and `end`.
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
        """All columns that tell windows apart."""
        return frozenset((*self.start_columns, *self.end_columns, *self.struct_columns))

    def last_end(self, end: datetime) -> datetime:
        """Where the last window ends that starts before `end`, which is a start itself."""
        return end - self.slide + self.length

    def starts_in(self, start: datetime, end: datetime) -> tuple[datetime, datetime]:
        """The smallest range around another one that begins and ends where windows start."""
        below = start - (start - _EPOCH - self.offset) % self.slide
        above = end + (_EPOCH + self.offset - end) % self.slide
        return below, above


class SinkOrigin(BaseModel):
    """What a sink's own transform does to the rows of the result.

    Args:
        columns: Column of the table by column of the result, for those that it keeps unchanged.
        reason: Why it does not work row by row; empty if it does.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    columns: dict[str, str] = {}
    reason: str = ""


class RowOrigin(BaseModel):
    """What the rows of a result are made of.

    Args:
        record: Result column by lineage column (`kafka_offset`, …), if each row is made of one record and
            names it; None otherwise.
        window: If each row is made of all records of one window; None otherwise.
        windows: Lengths of all windows of time that the transform makes, also where neither is proven.
        stateful: Whether a row depends on records of earlier batches.
        reason: Why neither is proven.
        sinks: What sinks with a transform of their own do to these rows, by table.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    record: dict[str, str] | None = None
    window: EventWindow | None = None
    windows: tuple[timedelta, ...] = ()
    stateful: bool = False
    reason: str = ""
    sinks: dict[str, SinkOrigin] = {}

    def of_table(self, table: str) -> RowOrigin:
        """What the rows of one table are made of: as the sink's own transform leaves them."""
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
    """The origin of the rows of a pipeline without a transform: its records, if they have an address."""
    if pipeline.spec.source.is_kafka:
        return RowOrigin(record={name: name for name in LINEAGE_COLUMNS})
    return RowOrigin(reason=f"rows of a {pipeline.spec.source.kind} source do not name their record")


def read_origin(store: Store, pipeline: Pipeline) -> RowOrigin | None:
    """What was found in the code as it is now; None if nobody has looked yet."""
    if not _has_code(pipeline):
        return plain_origin(pipeline)
    document = store.read_json(_path(pipeline))
    return None if document is None else RowOrigin.model_validate(document)


def keep_origin(store: Store, pipeline: Pipeline, origin: RowOrigin) -> None:
    """Keep what was found in the code as it is now."""
    if _has_code(pipeline):
        store.create_json(_path(pipeline), origin.model_dump(mode="json"))


def _has_code(pipeline: Pipeline) -> bool:
    return pipeline.spec.transform is not None or any(s.transform for s in pipeline.spec.delta_sinks)


def _path(pipeline: Pipeline) -> str:
    found_in = hashlib.sha256(f"{__version__} {pipeline.definition_digest}".encode()).hexdigest()[:16]
    return pipeline.layout.row_origin(pipeline.name, found_in)


def check_declared(pipeline: Pipeline, origin: RowOrigin) -> None:
    """Refuse a declaration that says something else of the rows than the code does.

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
