"""A driver's log: JSON lines on standard error. On a full disk lines are lost; the driver goes on."""

from __future__ import annotations

import io
import logging
import os
import sys
from contextlib import suppress

import structlog


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


def log_json_lines(descriptor: int | None = None) -> None:
    """Send all log lines to a file descriptor, by default standard error. For entry points only."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(
            _Lossy(sys.stderr.fileno() if descriptor is None else descriptor)
        ),
    )
