"""The driver's status after each batch, and its log lines. Reporting never fails a stream."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

import structlog
from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tidemill.checkpoint.status import DriverState, Status, write_status
from tidemill.checkpoint.stream_watermarks import Watermarks, moments_of
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.file_records import FileRecords
from tidemill.engine.lag import total_lag
from tidemill.engine.lineage_sender import LineageSender
from tidemill.engine.progress_times import moment_of
from tidemill.engine.query_reporter import QueryReporter
from tidemill.errors import TidemillError
from tidemill.names import query_name
from tidemill.sinks.memory_sink import MemoryTable
from tidemill.spec.secret_mask import mask_document
from tidemill.storage.store import Store

# Interval between writes of the status during one batch, in seconds. So remote readers know to the minute
# when this driver was last alive.
REFRESH_SECONDS = 60.0

# Facts about the pipeline, not about one driver, which the next driver takes over.
_HANDED_ON = ("progressed_at", "caught_up_at", "source_retention_seconds", "source_keeps_for_ever")

log = structlog.get_logger()


class _SparkEvents:
    """Passes Spark's events to a reporter.

    pyspark would first copy each event, with a call into the JVM for every metric of every operator: some
    hundred calls for a batch with state. A reporter reads one text.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's name
        started: Any = SimpleNamespace(id=event.id().toString(), name=event.name())
        self._reporter.onQueryStarted(started)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  # Spark's name
        progressed: Any = SimpleNamespace(progress=SimpleNamespace(json=event.progress().json()))
        self._reporter.onQueryProgress(progressed)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  # Spark's name
        idle: Any = SimpleNamespace(id=event.id().toString())
        self._reporter.onQueryIdle(idle)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  # Spark's name
        """Ignore Spark's event, because the driver itself reports how the query ended."""

    class Java:
        """The interface that py4j gives this class in the JVM."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


class Reporter(StreamingQueryListener):
    """Updates `status.json` from the batches' results and Spark's progress events.

    `query` receives the same batches and events, and reports more details. `lineage` receives the batches, if
    the environment names a lineage service.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        status: Status,
        sign_of_life: Callable[[], None] = lambda: None,
        query: QueryReporter | None = None,
    ) -> None:
        self.query = query or QueryReporter()
        self.lineage: LineageSender | None = None
        # Tables of the running query.
        self.memory_tables: Mapping[str, MemoryTable] = {}
        self.file_records = FileRecords({}, {})
        self._store = store
        self._sign_of_life = sign_of_life
        self._path = path
        self._lock = threading.Lock()
        self.status = status
        # Time of Spark's last event for the query, on the monotonic clock.
        self.heard_at = time.monotonic()
        # Times of the last sign of life of any kind, and of the last status, on the same clock.
        self._lived_at = self.heard_at
        self._written_at = self.heard_at
        # Newest batch whose end Spark has reported, so its commit file exists.
        self.last_progress: int | None = None
        self._seen_progress: int | None = None
        self._query_id: str | None = None
        # Counts by batch, until Spark has reported the end of the batch.
        self._late_by_batch: dict[int, int] = {}

    @cached_property
    def _jlistener(self) -> Any:
        """Return the listener that pyspark registers in the JVM instead of its own."""
        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(_SparkEvents(self))

    def memory_table(self, name: str) -> MemoryTable | None:
        """Return the table in memory with a name; None if there is none."""
        return self.memory_tables.get(f"memory:{name}")

    def state(self, state: DriverState, error: TidemillError | None = None, **changes: Any) -> None:
        """Change the state and write the status."""
        # Some facts of the error quote Spark or a client.
        told = None if error is None else mask_document(error.as_document())
        self._update(state=state, error=told, **changes)

    def works(self) -> None:
        """Count a sign of life without a change of the status: a finished task of a long batch."""
        self._live()
        if self._lived_at - self._written_at >= REFRESH_SECONDS:
            self._update()

    def silence(self) -> timedelta:
        """Return the time since the last sign of life: a status change, a Spark event or a finished task."""
        return timedelta(seconds=time.monotonic() - self._lived_at)

    def goes_on_from(self, before: Status | None) -> None:
        """Take over the facts about the pipeline from the last driver's status, before the first write."""
        if before is not None:
            handed_on = {name: getattr(before, name) for name in _HANDED_ON}
            self.status = self.status.model_copy(update=handed_on)

    def source_keeps(self, retention: timedelta | None) -> None:
        """Set how long the source keeps records; None for ever.

        This is not a sign of life, because a hanging driver also asks the broker.
        """
        told = (None if retention is None else retention.total_seconds(), retention is None)
        if told != (self.status.source_retention_seconds, self.status.source_keeps_for_ever):
            self._keep(source_retention_seconds=told[0], source_keeps_for_ever=told[1])

    def note(self, notes: list[str]) -> None:
        """Add notes about the input to the status, for the user."""
        self._update(notes=notes)

    def knows_watermarks(self, watermarks: Watermarks) -> None:
        """Set the watermark of each stream, if there are several."""
        self._update(watermarks=moments_of(watermarks))

    def progressed(self) -> bool:
        """Return True if a batch has ended since the last call."""
        progressed = self.last_progress != self._seen_progress
        self._seen_progress = self.last_progress
        return progressed

    def batch(self, result: BatchResult) -> None:
        """Add a written batch to the counts; log violated expectations."""
        self.query.wrote(result)
        if self.lineage is not None:
            self.lineage.wrote(result)
        for table, counts in result.expectations.items():
            violations = {name: count for name, count in counts.violations.items() if count}
            if violations:
                log.warning(
                    "expectations",
                    pipeline=self.status.pipeline,
                    batch_id=result.batch_id,
                    table=table,
                    violations=violations,
                    checked=counts.checked,
                    dropped=counts.dropped,
                    quarantined=counts.quarantined,
                )
        rows = dict(self.status.rows_by_output)
        for output, written in result.written.items():
            rows[output] = rows.get(output, 0) + (written.rows or 0)
        if result.batch_id is not None:
            self._late_by_batch[result.batch_id] = result.late
        now = datetime.now(UTC)
        self._update(
            batch_id=result.batch_id,
            batch_committed_at=now,
            progressed_at=now,
            batches=self.status.batches + 1,
            rows_by_output=rows,
            expectation_violations=_violations(self.status.expectation_violations, result),
            quarantined_rows=self.status.quarantined_rows + result.quarantined,
            late_rows=self.status.late_rows + result.late,
            no_event_time_rows=self.status.no_event_time_rows + result.no_event_time,
            watermarks=moments_of(result.watermarks) or self.status.watermarks,
        )

    def committed(self, result: BatchResult, commits: int) -> None:
        """Add Spark's commits of a query without batches.

        Continuous processing commits even while its source is unavailable. So if the source is known to be
        unavailable, a commit is not progress.

        Args:
            result: The newest commit, without a row count.
            commits: Number of commits since the last call.
        """
        self.query.wrote(result)
        now, status = datetime.now(UTC), self.status
        waits = status.state == "waiting" and status.error is not None
        runs = {} if waits else {"state": "running", "progressed_at": now}
        self._update(
            batch_id=result.batch_id,
            batch_committed_at=now,
            batches=status.batches + commits,
            **(runs if status.state in ("starting", "running", "waiting") else {}),
        )
        self.last_progress = result.batch_id

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's name
        """Remember the id of the query, because Spark sends a listener the events of all queries."""
        if event.name == query_name(self.status.pipeline):
            self._query_id = str(event.id)
            self._hear()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  # Spark's name
        """Take over Spark's metrics of a finished batch."""
        try:
            progress = json.loads(event.progress.json)
            if progress.get("name") == query_name(self.status.pipeline):
                self._hear()
                progress = self.file_records.in_progress(progress)
                self.query.progressed(progress)
                self._take_over(progress)
        except Exception as error:  # noqa: BLE001  # reporting must never stop a stream
            log.warning("progress_not_reported", reason=f"{type(error).__name__}: {error}")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  # Spark's signature
        """Record that the source has no new records."""
        if str(event.id) != self._query_id:
            return
        self._hear()
        # If a source was unavailable and has no new records, only this event shows that it is available
        # again.
        if self.status.state in ("starting", "running", "waiting"):
            now = datetime.now(UTC)
            lag = 0 if self.status.lag is not None else None
            self.state("waiting", lag=lag, source_empty_at=now, progressed_at=now, caught_up_at=now)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  # Spark's name
        """Ignore Spark's event, because the driver itself reports how the query ended."""

    def _live(self) -> None:
        self._lived_at = time.monotonic()
        self._sign_of_life()

    def _hear(self) -> None:
        """Record an event of Spark for the query."""
        self._live()
        self.heard_at = self._lived_at

    def _take_over(self, progress: dict[str, Any]) -> None:
        lag = total_lag(progress)
        milliseconds = progress.get("durationMs", {}).get("triggerExecution")
        running = self.status.state in ("starting", "running", "waiting")
        self._update(
            # A query without batches reads continuously, so it never waits.
            state=("waiting" if lag == 0 and not self.status.trigger else "running")
            if running
            else self.status.state,
            rows=self.status.rows + int(progress.get("numInputRows", 0)),
            batch_milliseconds=milliseconds,
            watermark=_watermark(progress) or self.status.watermark,
            lag=lag,
            caught_up_at=_moment(progress) if lag == 0 else self.status.caught_up_at,
            error=None,
        )
        self.last_progress = int(progress["batchId"])
        log.info(
            "batch",
            pipeline=self.status.pipeline,
            batch_id=progress["batchId"],
            generation=self.status.generation,
            epoch=self.status.epoch,
            rows=progress.get("numInputRows"),
            milliseconds=milliseconds,
            lag=lag,
            late_rows=self._late_by_batch.pop(self.last_progress, 0),
        )

    def _update(self, **changes: Any) -> None:
        self._live()
        self._written_at = self._lived_at
        self._keep(**changes, updated_at=datetime.now(UTC))

    def _keep(self, **changes: Any) -> None:
        """Change the status and store it."""
        with self._lock:
            self.status = Status.model_validate({**self.status.model_dump(), **changes})
            try:
                write_status(self._store, self._path, self.status)
            except Exception as error:  # noqa: BLE001  # reporting must never stop a stream
                log.warning("status_not_written", reason=f"{type(error).__name__}: {error}")


def _moment(progress: dict[str, Any]) -> datetime:
    """Return when the batch began, which is when Spark asked the source for its newest records."""
    return moment_of(progress.get("timestamp")) or datetime.now(UTC)


def _watermark(progress: dict[str, Any]) -> datetime | None:
    """Return the watermark; None before the first one."""
    text = progress.get("eventTime", {}).get("watermark")
    return None if not text or text.startswith("1970") else moment_of(text)


def _violations(known: dict[str, dict[str, int]], result: BatchResult) -> dict[str, dict[str, int]]:
    """Return the counts since the driver started, including one more batch."""
    counted = {table: dict(counts) for table, counts in known.items()}
    for table, counts in result.expectations.items():
        for name, rows in counts.violations.items():
            of_table = counted.setdefault(table, {})
            of_table[name] = of_table.get(name, 0) + rows
    return counted
