"""A running query and its end: after its batch, or after a deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemill.engine.batch import BatchProcessor
from tidemill.engine.file_names import FileNamesReport
from tidemill.engine.reporter import Reporter

# Interval at which a drain checks that Spark has recorded the end of a batch, in seconds.
_LOOK_SECONDS = 0.05

# Spark's logger for the end of a query.
_SPARK_LOGGER = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"

log = structlog.get_logger()


class Running(Protocol):
    """A query of a driver, with or without batches."""

    @property
    def query(self) -> StreamingQuery:
        """Return Spark's query."""

    @property
    def failure(self) -> BaseException | None:
        """Return the exception that ended it, because Spark has only its text."""

    def look(self) -> None:
        """Do periodic work while it runs."""

    def drain(self, timeout: timedelta) -> Literal["drained", "forced"]:
        """Let it finish its batch; the caller stops it."""

    def stop(self) -> bool:
        """Stop it; return False if its thread does not end."""


@dataclass(frozen=True)
class RunningQuery:
    """A started query, the processor of its batches, and its reports."""

    query: StreamingQuery
    processor: BatchProcessor
    reporter: Reporter
    file_names: FileNamesReport

    @property
    def failure(self) -> BaseException | None:
        """Return the exception of a failed batch, because Spark has only its text."""
        return self.processor.failure

    def look(self) -> None:
        """Report notes about the files."""
        self.file_names.look(self.reporter)

    def drain(self, timeout: timedelta) -> Literal["drained", "forced"]:
        """Let it finish its batch; the caller stops it."""
        return drain_queries([self], timeout)

    @property
    def end_is_recorded(self) -> bool:
        """Return True if Spark has reported the end of the newest batch that this driver wrote."""
        written, reported = self.processor.last_finished, self.reporter.last_progress
        return written is None or (reported is not None and reported >= written)

    def stop(self) -> bool:
        """Stop the query; return False if its thread does not end."""
        stopped = stop_query(self.query)
        if stopped:
            self.look()
        return stopped


def stop_query(query: StreamingQuery) -> bool:
    """Stop a query; return False if its thread does not end (`spark.sql.streaming.stopTimeout`)."""
    try:
        query.stop()
    except (PySparkException, Py4JError) as error:
        log.warning("query_not_stopped", query=query.name, reason=type(error).__name__)
        return False
    return True


def drain_queries(running: Sequence[RunningQuery], timeout: timedelta) -> Literal["drained", "forced"]:
    """Let all queries of a driver finish their batches, within one deadline for all; the caller stops them.

    A drain was requested before, so no further batch begins to write.

    1. Wait until no batch is writing. A batch that would start now ends its query itself.
    2. Wait until Spark has recorded the end of the last written batches, so that they are not repeated.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    for query in running:
        query.reporter.state("draining")
    # 1.
    for query in running:
        if not query.processor.writing.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return "forced"
        query.processor.writing.release()
    # 2.
    while any(query.query.isActive and not query.end_is_recorded for query in running):
        if time.monotonic() > deadline:
            return "forced"
        time.sleep(_LOOK_SECONDS)
    return "drained"


def log_ends_of_queries(spark: SparkSession, wanted: bool) -> None:
    """Turn Spark's log of query ends on or off; off when a drain ends a query with an expected error."""
    logging = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # no public way
    level = logging.Level.WARN if wanted else logging.Level.OFF
    logging.core.config.Configurator.setLevel(_SPARK_LOGGER, level)
