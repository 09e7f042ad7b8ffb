"""The driver's report about its streaming query, next to its status: `query.json` and the port's `/queries`.

The threads of the query only change data in memory. One thread, which waits for the query's end, asks Spark
and writes, so a slow storage delays no batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from tidemill.checkpoint.query_report import (
    KEPT_PROGRESSES,
    BatchTimes,
    QueryReport,
    RowsAside,
    SinkReport,
    SourceReport,
)
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.lag import furthest_behind, lag_of
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.secret_mask import mask_document, mask_secrets

# Interval between requests to Spark for the state of the query, after which a change is stored, in seconds.
# It limits the delay that a user sees; each change writes a small file to the object store.
LOOK_SECONDS = 3.0

# Interval after which an unchanged report is stored again, in seconds. A driver that is about to be fenced
# may have replaced it with its own.
REFRESH_SECONDS = 60.0

# Fields that grow with the number of partitions and state stores; without them a stored progress has 3 kB.
_LONG_IN_SOURCE = ("startOffset", "endOffset", "latestOffset")
_LONG_IN_STATE = ("customMetrics",)

# Maximum length of a stored plan, in characters; a plan of ten joins has a quarter of it.
PLAN_CHARACTERS = 100_000

# Spark's text while there is no plan.
_NO_PLAN = "No physical plan"

# Prefix of Spark's message for a failed query, before the error.
TERMINATED = "Terminated with exception"

log = structlog.get_logger()


@dataclass(frozen=True)
class Addresses:
    """URLs of a driver's services."""

    http: str = ""
    spark_ui: str = ""


class QueryReporter:
    """Keeps the report of the running query.

    Args:
        keep: Stores a report; its errors are logged and stop nothing.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        keep: Callable[[QueryReport], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep = keep
        self._clock = clock
        self._lock = threading.Lock()
        self._source = ""
        self._looked_at = float("-inf")
        self._stored: QueryReport | None = None
        self._stored_at = float("-inf")
        # Kept for all successive queries of this driver. The first batch may be written before `begins`.
        self._sinks: tuple[SinkReport, ...] = ()
        self._times: tuple[BatchTimes, ...] = ()
        self._aside: tuple[RowsAside, ...] = ()
        self.addresses = Addresses()
        self.report: QueryReport | None = None

    def begins(self, query: StreamingQuery, pipeline: str, spec: PipelineSpec, run_id: str) -> None:
        """Begin the report of a started query."""
        now = datetime.now(UTC)
        # Spark's progress does not name the sources, and their order may differ from the declaration.
        self._source = "" if spec.has_named_streams else spec.parameter
        self._looked_at = self._clock()
        with self._lock:
            self.report = QueryReport(
                pipeline=pipeline,
                run_id=run_id,
                id=query.id,
                query_run_id=query.runId,
                name=query.name or pipeline,
                started_at=now,
                updated_at=now,
                http=self.addresses.http,
                spark_ui=self.addresses.spark_ui,
                sinks=self._sinks,
                sink_times=self._times,
                rows_aside=self._aside,
            )
        self._store()

    def wrote(self, result: BatchResult) -> None:
        """Add a written batch."""
        with self._lock:
            self._sinks = _sinks(self._sinks, result)
            self._times = (*self._times, *_times(result))[-KEPT_PROGRESSES:]
            self._aside = (*self._aside, *_aside(result))[-KEPT_PROGRESSES:]
            if self.report is not None:
                told = {"sinks": self._sinks, "sink_times": self._times, "rows_aside": self._aside}
                self.report = self.report.model_copy(update=told)

    def progressed(self, progress: dict[str, Any]) -> None:
        """Add Spark's progress of a batch, or of a wait."""
        document = mask_document(progress)
        with self._lock:
            if self.report is None or self.report.query_run_id != progress.get("runId"):
                return
            changes = {
                "last_progress": document,
                "recent_progress": (*self.report.recent_progress, _short(document))[-KEPT_PROGRESSES:],
                "sources": tuple(_source(self._source, source) for source in document.get("sources", [])),
            }
            self.report = self.report.model_copy(update=changes)

    def look(self, query: StreamingQuery) -> None:
        """Ask Spark and store changes, if the interval has passed."""
        report = self.report
        if report is None or self._clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        try:
            status = query.status
            # Only after a batch has run, because before that Spark would plan one for this call.
            explain = report.explain or (_explain(query) if report.last_progress else "")
        except (PySparkException, Py4JError) as error:
            # The query or the JVM is ending; the thread that waits for the query finds the reason.
            log.debug("query_not_asked", reason=type(error).__name__)
            return
        self._change(
            explain=explain,
            message=_message(str(status["message"])),
            is_data_available=bool(status["isDataAvailable"]),
            is_trigger_active=bool(status["isTriggerActive"]),
        )
        self._store()

    def ends(self) -> None:
        """Record that the query has ended; the status has the reason."""
        self._change(active=False, is_data_available=False, is_trigger_active=False, message="")
        self._store()

    def _change(self, **changes: Any) -> None:
        with self._lock:
            if self.report is not None:
                self.report = self.report.model_copy(update=changes)

    def _store(self) -> None:
        """Store the report if it has changed, or if the last store is long ago."""
        now = self._clock()
        with self._lock:
            report = self.report
            is_fresh = now - self._stored_at < REFRESH_SECONDS
            if report is None or (report == self._stored and is_fresh):
                return
            self._stored_at = now
            self.report = self._stored = report.model_copy(update={"updated_at": datetime.now(UTC)})
        try:
            self._keep(self._stored)
        except Exception as error:  # noqa: BLE001  # reporting must never stop a stream
            log.warning("query_report_not_written", reason=f"{type(error).__name__}: {error}")


def _message(told: str) -> str:
    """Return the message; for a failure only its prefix, because the error may quote a record."""
    return TERMINATED if told.startswith(TERMINATED) else mask_secrets(told)


def _explain(query: StreamingQuery) -> str:
    """Return the plan as text; `query.explain()` would print it."""
    text = str(query._jsq.explainInternal(False))
    return "" if text.startswith(_NO_PLAN) else mask_secrets(text)[:PLAN_CHARACTERS]


def _source(name: str, source: dict[str, Any]) -> SourceReport:
    return SourceReport(
        name=name,
        description=str(source.get("description", "")),
        rows=int(source.get("numInputRows", 0)),
        input_rows_per_second=source.get("inputRowsPerSecond"),
        processed_rows_per_second=source.get("processedRowsPerSecond"),
        end_offset=source.get("endOffset"),
        latest_offset=source.get("latestOffset"),
    )


def _sinks(known: tuple[SinkReport, ...], result: BatchResult) -> tuple[SinkReport, ...]:
    """Return the outputs after a batch; outputs that the batch did not write stay unchanged."""
    sinks = {sink.name: sink for sink in known}
    for name, written in result.written.items():
        before = sinks.get(name, SinkReport(name=name))
        sinks[name] = SinkReport(
            name=name,
            batch_id=result.batch_id,
            committed=written.committed,
            rows=written.rows,
            total_rows=before.total_rows + (written.rows or 0),
            version=before.version if written.version is None else written.version,
        )
    return tuple(sinks.values())


def _times(result: BatchResult) -> tuple[BatchTimes, ...]:
    """Return the times of one batch; empty if the batch wrote no output."""
    spent = result.times.milliseconds
    if result.batch_id is None or not spent:
        return ()
    return (BatchTimes(batch_id=result.batch_id, milliseconds=spent, reader=result.times.reader),)


def _aside(result: BatchResult) -> tuple[RowsAside, ...]:
    if result.batch_id is None:
        return ()
    counts = {"late": result.late, "no_event_time": result.no_event_time}
    return (RowsAside(batch_id=result.batch_id, quarantined=result.quarantined, **counts),)


def _short(progress: dict[str, Any]) -> dict[str, Any]:
    long = {"sources": _LONG_IN_SOURCE, "stateOperators": _LONG_IN_STATE}
    shortened = {
        part: [{name: value for name, value in one.items() if name not in names} for one in progress[part]]
        for part, names in long.items()
        if part in progress
    }
    for source, whole in zip(shortened.get("sources", ()), progress.get("sources", ()), strict=True):
        behind = furthest_behind(lag_of({"sources": [whole]}) or ())
        source.update({"partitionLag": {f"{lag.topic}-{lag.partition}": lag.records for lag in behind}})
    return {**progress, **shortened}
