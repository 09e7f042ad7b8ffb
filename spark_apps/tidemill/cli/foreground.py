"""Driver runs in the foreground, which show the driver's log and drain the driver on CTRL-C.

The driver is a separate process that holds its pipeline's slot. So a manual run and a run from Airflow never
write the same table at once, and closing the terminal does not interrupt a batch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.cli.driver_lines import DriverLines
from tidemill.cli.output import say
from tidemill.errors import InternalError, TidemillError

if TYPE_CHECKING:
    from typing import BinaryIO

    from tidemill.control.decide.endings import Ending
    from tidemill.control.driver_command import DriverRun
    from tidemill.control.plane import ControlPlane
    from tidemill.control.runtime import StartedDriver

# Display of a followed driver, called at each poll and closed at its end.
Shown = Callable[["StartedDriver"], AbstractContextManager[Callable[[], None]]]

# Seconds between two polls of the log and the process, short enough for live output and for CTRL-C.
FOLLOW_SECONDS = 0.2


def run_in_foreground(plane: ControlPlane, run: DriverRun, shown: Shown | None = None) -> int:
    """Run a driver to its end and return its exit code, which is 0 if it finished its work or was drained.

    If a backfill already carries out the same plan, wait for that one instead. Without `shown`, a terminal
    shows a line for each batch, and a pipe or file gets the driver's whole log.

    Raises:
        SpecError: If the declaration is wrong. Nothing was started.
        UnavailableError: If another driver of the pipeline is running.
    """
    from tidemill.control.ask.bounded_run import same_work, start_bounded
    from tidemill.control.ask.run_summary import summarize_run

    driver = start_bounded(plane, run, same_work(plane, run))
    ending = follow(plane, driver, shown or (batches_shown if sys.stderr.isatty() else log_shown))
    if ending is None:
        say("another run has taken the slot; see the log")
        return 1
    for line in summarize_run(plane, driver):
        say(line)
    if ending.is_finished:
        say("finished")
    elif ending.stopped_early:
        say(f"{ending.cause}; run it again for the rest")
    else:
        sys.stderr.write(f"{failure_text(ending)}\nlog {driver.log}\n")
    return exit_code_of(ending)


def failure_text(ending: Ending) -> str:
    """Return problem, facts, fix and runbook of a failure, or only its cause if the driver left no error."""
    error = ending.error
    if error is None:
        return f"failed: {ending.cause}"
    failure = TidemillError(
        error["id"],
        error["problem"],
        facts=error.get("facts"),
        fix=error.get("fix", ""),
        runbook=error.get("runbook", ""),
    )
    return f"failed: exit {ending.exit_code}\n{failure}"


def exit_code_of(ending: Ending) -> int:
    """Return the command's exit code: the driver's, or 1 if the work was stopped before its end."""
    if ending.is_finished:
        return 0
    if ending.result == "killed":
        # Restarted like an internal error.
        return InternalError.exit_code
    return ending.exit_code or 1


def follow(plane: ControlPlane, driver: StartedDriver, shown: Shown) -> Ending | None:
    """Wait for a driver's end and return it; None if another run has taken its slot.

    The first CTRL-C drains the driver. A second one ends this command and leaves the driver running.
    """
    from tidemill.control.runtime import slot_of

    sys.stderr.write(
        f"{driver.pipeline}: {driver.process}, run {driver.run_id}, log {driver.log}; CTRL-C drains it\n"
    )
    _follow(plane, driver, shown)
    ending = plane.last_ending(driver.pipeline, slot_of(driver.mode))
    return ending if ending is not None and ending.run_id == driver.run_id else None


def _follow(plane: ControlPlane, driver: StartedDriver, shown: Shown) -> None:
    """Poll until the driver has ended. The first CTRL-C drains it, a second one ends this command only."""
    from tidemill.control.runtime import slot_of
    from tidemill.dev.stop_request import stop_on_signals

    drained = False
    with shown(driver) as look, stop_on_signals() as stop:
        while True:
            newest = plane.runtime.last_start(driver.pipeline, slot_of(driver.mode))
            ended = newest is None or not newest.alive or newest.run_id != driver.run_id
            # After the check of the process, because the log then has its last lines.
            look()
            if ended:
                return
            if stop.is_set() and not drained:
                sys.stderr.write("draining: the driver finishes its batch\n")
                drained = plane.runtime.drain(driver)
            time.sleep(FOLLOW_SECONDS)


@contextmanager
def log_shown(driver: StartedDriver) -> Iterator[Callable[[], None]]:
    """Show the driver's log as it grows."""
    with _log_of(driver) as log:
        yield lambda: _copy(log)


@contextmanager
def batches_shown(driver: StartedDriver) -> Iterator[Callable[[], None]]:
    """Show a line for each batch, wait and warning. The rest is in the log."""
    lines, rest = DriverLines(), b""
    with _log_of(driver) as log:

        def look() -> None:
            nonlocal rest
            *whole, rest = (rest + log.read()).split(b"\n")
            for line in whole:
                if (shown := lines.shown(line.decode("utf-8", "replace"))) is not None:
                    sys.stderr.write(f"{shown}\n")
            sys.stderr.flush()

        yield look


@contextmanager
def nothing_shown(_: StartedDriver) -> Iterator[Callable[[], None]]:
    """Show nothing, for one of many drivers."""
    yield lambda: None


def _log_of(driver: StartedDriver) -> BinaryIO:
    """Open the driver's log. It is empty if the log is not a file on this machine."""
    file = Path(driver.log)
    return file.open("rb") if file.is_file() else BytesIO()


def _copy(log: BinaryIO) -> None:
    # The output of the driver and of Spark's JVM is not always valid UTF-8.
    sys.stderr.write(log.read().decode("utf-8", "replace"))
    sys.stderr.flush()
