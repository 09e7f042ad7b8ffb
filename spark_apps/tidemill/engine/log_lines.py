"""A driver's log: JSON lines on standard error. On a full disk lines are lost; the driver goes on."""

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

# Loggers of pyspark that quote the record at which a task has failed. What a batch raises, Spark tells us.
_QUOTING_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j")


class _Lossy(io.StringIO):
    """Writes each line at once and keeps nothing that could not be written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        # A runtime gives the driver a file for its log. What a buffered stream cannot write there, it
        # tries again at the end of the process and then turns exit code 0 into 120.
        with suppress(OSError):
            os.write(self._descriptor, text.encode(errors="backslashreplace"))
        return len(text)


def run_in_log(pipeline: str, run_id: str, variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What each line of a driver says of its run.

    The id of a bounded run tells which run of which DAG it is; of a stream that reconciliation has started,
    its starter tells.
    """
    run, dag_run = {"pipeline": pipeline, "run_id": run_id}, variables.get(DAG_RUN_VARIABLE)
    return {**run, "dag_run": dag_run} if dag_run else run


def quote_no_record() -> None:
    """Let the loggers of pyspark be silent; what Java's log says is in `log4j2.properties`."""
    for name in _QUOTING_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _trace(exc_info: ExcInfo) -> str:
    return trace_of(exc_info[1])


def log_json_lines(descriptor: int | None = None, run: Mapping[str, str] | None = None) -> None:
    """Send all log lines to a file descriptor, by default standard error. For entry points only.

    Args:
        descriptor: The file.
        run: What each line says of the run that it is of; see `run_in_log`.
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
