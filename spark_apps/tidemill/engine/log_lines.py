"""A driver's log: JSON lines on standard error. If the disk is full, lines are lost but the driver runs."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress

import structlog
from structlog.typing import EventDict, ExcInfo

from tidemill.airflow_names import DAG_RUN_VARIABLE
from tidemill.failed_at import trace_of

# Loggers of pyspark that quote the record on which a task failed. Spark reports errors of batches anyway.
_QUOTING_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j")


class _Lossy(io.StringIO):
    """Writes each line at once and drops text that cannot be written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        # The runtime may redirect the driver's log to a file. A buffered stream would retry failed writes at
        # the end of the process, and then change exit code 0 to 120.
        with suppress(OSError):
            os.write(self._descriptor, text.encode(errors="backslashreplace"))
        return len(text)


def run_in_log(pipeline: str, run_id: str, variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the facts about the run that each log line of a driver contains.

    The id of a bounded run identifies its DAG run. A stream that reconciliation has started gets its DAG run
    from an environment variable.
    """
    run, dag_run = {"pipeline": pipeline, "run_id": run_id}, variables.get(DAG_RUN_VARIABLE)
    return {**run, "dag_run": dag_run} if dag_run else run


def quote_no_record() -> None:
    """Silence the pyspark loggers that quote records; `log4j2.properties` does the same for Java's log."""
    for name in _QUOTING_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _trace(exc_info: ExcInfo) -> str:
    return trace_of(exc_info[1])


def log_json_lines(descriptor: int | None = None, run: Mapping[str, str] | None = None) -> None:
    """Send all log lines to a file descriptor, by default standard error. For entry points only.

    Args:
        descriptor: The file descriptor.
        run: Facts about the run for each line; see `run_in_log`.
    """
    of_run = dict(run or {})

    def with_run(_logger: object, _method: str, line: EventDict) -> EventDict:
        return {**of_run, **line}

    structlog.configure(
        processors=[
            with_run,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.ExceptionRenderer(_trace),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(
            _Lossy(sys.stderr.fileno() if descriptor is None else descriptor)
        ),
    )
