"""Start a driver process on this machine: detached, with its own log and few environment variables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

from tidemill.control.local.own_children import adopt

BECOME_DRIVER = "tidemill.control.local.become_driver"

# Number of logs kept for a slot. A driver logs a few lines per batch. A day of crash loops (backoff of at
# most 5 minutes) must not delete the log of its first crash within an hour.
KEPT_LOGS = 30


@dataclass(frozen=True)
class Launch:
    """Inputs of a process.

    Args:
        record: File of the start's record, which the process signs.
        command: Command that it then executes.
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
    """Start the process and return its pid.

    Raises:
        OSError: If the machine cannot create it.
    """
    with what.log.open("xb") as log:
        process = Popen(
            [sys.executable, "-m", BECOME_DRIVER, str(what.record), *what.command],
            stdin=DEVNULL,
            stdout=log,
            stderr=STDOUT,
            cwd=what.folder,
            env=what.variables,
            # A separate session, so that neither a closed terminal nor Airflow's signals to its own process
            # groups reach the driver.
            start_new_session=True,
            pass_fds=[what.lock],
        )
    adopt(process)
    return process.pid


def new_log(folder: Path) -> Path:
    """Return a new log file in a slot's folder of logs, and delete the oldest ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.log"))[: -KEPT_LOGS + 1]:
        old.unlink(missing_ok=True)
    return folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.log"
