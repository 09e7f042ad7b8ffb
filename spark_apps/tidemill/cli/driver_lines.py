"""A driver's log in a terminal: a line for each batch, each wait and each warning.

The log file has everything. A terminal shows no JSON lines and no lines of Spark's JVM. It shows all other
lines: the output of a transform, and Python's output before the driver's log begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tidemill.spec.readable import plain

# Output of Spark's JVM: lines in the format of log4j2.properties, lines of its start, and stack traces.
_OF_SPARK = re.compile(
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) |"
    r"WARNING: |Setting default log level to |To adjust logging level |Using Spark's |"
    r"Picked up (?:_JAVA_OPTIONS|JAVA_TOOL_OPTIONS)|OpenJDK |Java HotSpot"
)
_BELOW = re.compile(r"\s|Caused by: |Suppressed: |(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)\b|$")

# Events that are shown at the end of the run with facts and fix.
_SHOWN_AT_THE_END = frozenset({"failed", "stopped"})

# Fields of a line that identify the run and the time.
_OF_THE_LINE = frozenset({"event", "level", "timestamp", "pipeline", "run_id", "dag_run", "exception"})


# Optional counts of a batch.
_COUNTS = {"lag": "behind", "late_rows": "late"}


class DriverLines:
    """The lines of one driver's log, in order."""

    def __init__(self) -> None:
        self._below_spark = False
        self._waits_for = ""

    def shown(self, line: str) -> str | None:
        """Return the text to show in a terminal for a line of the log, or None to show nothing.

        Args:
            line: The line without its line break.
        """
        event = _event(line)
        if event is not None:
            self._below_spark = False
            return self._of_event(event)
        if _OF_SPARK.match(line):
            self._below_spark = True
            return None
        self._below_spark = self._below_spark and _BELOW.match(line) is not None
        return None if self._below_spark or not line.strip() else line

    def _of_event(self, event: Mapping[str, Any]) -> str | None:
        name = event["event"]
        if name == "unavailable":
            return self._wait(str(event.get("reason", "")))
        if name in ("batch", "chunk"):
            self._waits_for = ""
            return _batch(event) if name == "batch" else f"chunk {event.get('number')} of {event.get('of')}"
        if name in _SHOWN_AT_THE_END or event.get("level") not in ("warning", "error", "critical"):
            return None
        facts = " ".join(f"{key}={value}" for key, value in event.items() if key not in _OF_THE_LINE)
        return plain(f"{event['level']}: {name} {facts}".rstrip())

    def _wait(self, reason: str) -> str | None:
        """Return the reason in one line, once per wait."""
        lines = [line.strip() for line in reason.splitlines()]
        waits = "; ".join(line for line in lines if not line.startswith("Runbook: "))
        if waits == self._waits_for:
            return None
        self._waits_for = waits
        return plain(f"waiting: {waits}")


def _event(line: str) -> Mapping[str, Any] | None:
    """Return the fields of a line that the driver logged; None for other lines."""
    if not line.startswith("{"):
        return None
    try:
        document = json.loads(line)
    except ValueError:
        return None
    return document if isinstance(document, dict) and isinstance(document.get("event"), str) else None


def _batch(event: Mapping[str, Any]) -> str:
    counts = [f"{event.get('rows') or 0:,} rows"]
    if (milliseconds := event.get("milliseconds")) is not None:
        counts.append(f"{milliseconds / 1000:.1f} s")
    counts += [f"{event[key]:,} {words}" for key, words in _COUNTS.items() if event.get(key)]
    return f"batch {event.get('batch_id')}: {', '.join(counts)}"
