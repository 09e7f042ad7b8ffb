"""A driver's heartbeat: a local file with its last sign of life and how it ended.

It is for the process that starts drivers on this machine. It needs neither the storage root, which may be
unavailable, nor space on a full disk: after the first beat, every beat overwrites the same few bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

# Path of the file. It is not set in a pod, because the kubelet asks the driver itself; the driver then writes
# no heartbeat.
HEARTBEAT_VARIABLE = "TIDEMILL_HEARTBEAT"

# Minimum time between two beats, in seconds, because up to a thousand tasks may end in a second.
BEAT_SECONDS = 1.0

# One line: the machine's monotonic clock in seconds, which neither NTP nor a suspended laptop moves; then
# exit code and error id of a driver that has ended. The length is constant, so each write replaces the whole
# line.
_LINE = "{beat:020.3f} {exit_code:>3} {error_id:<20}\n"


@dataclass(frozen=True)
class HeartbeatRecord:
    """Content of the file.

    Args:
        silence: Time since the last beat.
        exit_code: Exit code of the driver; None if it has not ended, or could not write its code.
        error_id: Id of the error that ended it.
    """

    silence: timedelta
    exit_code: int | None = None
    error_id: str = ""


class Heartbeat:
    """Writes the file if a path is given. It never makes a driver fail.

    Args:
        file: Path of the file, which is created at once.
    """

    def __init__(self, file: str | None) -> None:
        self._descriptor = None if file is None else _open(file)
        self._beaten_at = float("-inf")
        self.beat()

    @classmethod
    def of_this_process(cls, variables: Mapping[str, str] = os.environ) -> Heartbeat:
        """Return the heartbeat that the parent process requested through the environment."""
        return cls(variables.get(HEARTBEAT_VARIABLE))

    def beat(self) -> None:
        """Write a sign of life."""
        now = time.monotonic()
        if now - self._beaten_at >= BEAT_SECONDS:
            self._beaten_at = now
            self._write(_LINE.format(beat=now, exit_code="-", error_id="-"))

    def end(self, exit_code: int, error_id: str = "") -> None:
        """Write how this process ends, if possible."""
        line = _LINE.format(beat=time.monotonic(), exit_code=exit_code, error_id=error_id[:20] or "-")
        self._write(line)

    def _write(self, line: str) -> None:
        if self._descriptor is None:
            return
        try:
            os.pwrite(self._descriptor, line.encode("ascii", "replace"), 0)
        except OSError:
            # A reader sees an older beat, which is enough: three beats a minute would do.
            return


def read_heartbeat(file: Path) -> HeartbeatRecord | None:
    """Return the last record of a driver on this machine; None if there is no readable file."""
    try:
        beat, exit_code, error_id = file.read_text(encoding="ascii").split()
        return HeartbeatRecord(
            silence=timedelta(seconds=max(0.0, time.monotonic() - float(beat))),
            exit_code=None if exit_code == "-" else int(exit_code),
            error_id="" if error_id == "-" else error_id,
        )
    except (OSError, ValueError):
        return None


def _open(file: str) -> int | None:
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
