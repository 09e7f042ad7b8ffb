"""A driver's heartbeat: a file of its machine in which it leaves each sign of life, and how it ended.

For who starts drivers on this machine. It needs neither the storage root, which may be unavailable, nor
space on a full disk: after the first one, every beat overwrites the same few bytes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

# Names the file. Where nobody has named one, as in a pod, whose kubelet asks the driver itself, none is kept.
HEARTBEAT_VARIABLE = "TIDEMILL_HEARTBEAT"

# Least time between two beats, in seconds: tasks of a batch may end a thousand times a second.
BEAT_SECONDS = 1.0

# One line: the machine's clock in seconds since its start, which neither a time server nor a suspended laptop
# moves; then exit code and error id of a driver that has ended. Of one length, to be overwritten whole.
_LINE = "{beat:020.3f} {exit_code:>3} {error_id:<20}\n"


@dataclass(frozen=True)
class HeartbeatRecord:
    """What the file tells.

    Args:
        silence: Time since the last beat.
        exit_code: The code with which the driver has ended; None if it has not, or could not say.
        error_id: Of the error that it has ended with.
    """

    silence: timedelta
    exit_code: int | None = None
    error_id: str = ""


class Heartbeat:
    """Writes the file, if there is to be one. Never a reason for a driver to fail.

    Args:
        file: The file; made at once.
    """

    def __init__(self, file: str | None) -> None:
        self._descriptor = None if file is None else _open(file)
        self._beaten_at = float("-inf")
        self.beat()

    @classmethod
    def of_this_process(cls, variables: Mapping[str, str] = os.environ) -> Heartbeat:
        """The heartbeat that whoever has started this process asked for."""
        return cls(variables.get(HEARTBEAT_VARIABLE))

    def beat(self) -> None:
        """Leave a sign of life."""
        now = time.monotonic()
        if now - self._beaten_at >= BEAT_SECONDS:
            self._beaten_at = now
            self._write(_LINE.format(beat=now, exit_code="-", error_id="-"))

    def end(self, exit_code: int, error_id: str = "") -> None:
        """Say how this process ends, as far as it can."""
        line = _LINE.format(beat=time.monotonic(), exit_code=exit_code, error_id=error_id[:20] or "-")
        self._write(line)

    def _write(self, line: str) -> None:
        if self._descriptor is None:
            return
        try:
            os.pwrite(self._descriptor, line.encode("ascii", "replace"), 0)
        except OSError:
            # Who reads it finds an older beat; three of a minute are enough.
            return


def read_heartbeat(file: Path) -> HeartbeatRecord | None:
    """What a driver of this machine has left last; None without a file that says it."""
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
