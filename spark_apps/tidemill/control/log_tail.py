"""The end of a log, for a person who asks why a driver failed."""

from __future__ import annotations

from collections import deque
from pathlib import Path

# Lines shown: a driver's last words and a stack trace of Spark's.
SHOWN_LINES = 60


def newest_lines(file: Path, count: int) -> list[str]:
    """The last lines of a file; none if it is gone. Spark's JVM does not always write valid UTF-8."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return [line.rstrip("\n") for line in deque(lines, maxlen=count)]
    except FileNotFoundError:
        return []
