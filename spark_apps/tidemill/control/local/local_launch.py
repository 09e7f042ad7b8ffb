"""Making the process of a driver on this machine: detached, with its own log and few variables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

from tidemill.control.local.own_children import adopt

BECOME_DRIVER = "tidemill.control.local.become_driver"

# Logs kept of one slot. A driver logs a few lines a batch; a crash loop of a day (backoff 5 minutes at
# most) must not push out the log of its first crash within an hour.
KEPT_LOGS = 30


@dataclass(frozen=True)
class Launch:
    """What a process is made from.

    Args:
        record: File of the start's record, which the process signs.
        command: What it becomes then.
        log: File for its output.
        folder: Its working directory.
        variables: All its environment variables.
        lock: Descriptor of the slot's lock, which it inherits.
    """

    record: Path
    command: Sequence[str]
    log: Path
    folder: Path
    variables: Mapping[str, str]
    lock: int


def launch(what: Launch) -> int:
    """Make the process; its pid.

    Raises:
        OSError: If the machine makes none.
    """
    with what.log.open("xb") as log:
        process = Popen(
            [sys.executable, "-m", BECOME_DRIVER, str(what.record), *what.command],
            stdin=DEVNULL,
            stdout=log,
            stderr=STDOUT,
            cwd=what.folder,
            env=what.variables,
            # A session of its own: neither a closed terminal nor Airflow's signals to its own process groups
            # reach the driver.
            start_new_session=True,
            pass_fds=[what.lock],
        )
    adopt(process)
    return process.pid


def new_log(folder: Path) -> Path:
    """A file for the next log in a slot's folder of logs; the oldest ones go."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.log"))[: -KEPT_LOGS + 1]:
        old.unlink(missing_ok=True)
    return folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.log"
