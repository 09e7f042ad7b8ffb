"""A driver run that a person watches: started like any other, its log shown, CTRL-C drains it.

The driver is a process of its own that holds its pipeline's slot. So a run by hand and one by Airflow
never write the same table at once, and a terminal that closes does not tear a batch apart.
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

# What of a driver is shown while it is followed: called at each look, closed at its end.
Shown = Callable[["StartedDriver"], AbstractContextManager[Callable[[], None]]]

# Seconds between two looks at the log and the process: short enough to read along and to feel CTRL-C.
FOLLOW_SECONDS = 0.2


def run_in_foreground(plane: ControlPlane, run: DriverRun, shown: Shown | None = None) -> int:
    """Run a driver to its end; return its exit code: 0 if it did all of its work, a stream until a drain.

    A backfill that carries out the same plan already is waited for instead. Without `shown`, a terminal shows
    a line for each batch, and a pipe or file gets the driver's whole log.

    Raises:
        SpecError: If the declaration is wrong; nothing was started.
        UnavailableError: If another driver of the pipeline is at work.
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
    """Return problem, facts, fix and runbook of an end; only its cause, if the driver left no error."""
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
    """Return the command's exit code: the driver's, or 1 for work that was stopped before its end."""
    if ending.is_finished:
        return 0
    if ending.result == "killed":
        # Started again like an internal error.
        return InternalError.exit_code
    return ending.exit_code or 1


def follow(plane: ControlPlane, driver: StartedDriver, shown: Shown) -> Ending | None:
    """Wait for a driver's end; None if another run took its slot meanwhile.

    The first CTRL-C drains it, a second one leaves it alone.
    """
    from tidemill.control.runtime import slot_of

    sys.stderr.write(
        f"{driver.pipeline}: {driver.process}, run {driver.run_id}, log {driver.log}; CTRL-C drains it\n"
    )
    _follow(plane, driver, shown)
    ending = plane.last_ending(driver.pipeline, slot_of(driver.mode))
    return ending if ending is not None and ending.run_id == driver.run_id else None


def _follow(plane: ControlPlane, driver: StartedDriver, shown: Shown) -> None:
    """Look until the driver has ended; the first CTRL-C drains it, a second one leaves it alone."""
    from tidemill.control.runtime import slot_of
    from tidemill.dev.stop_request import stop_on_signals

    drained = False
    with shown(driver) as look, stop_on_signals() as stop:
        while True:
            newest = plane.runtime.last_start(driver.pipeline, slot_of(driver.mode))
            ended = newest is None or not newest.alive or newest.run_id != driver.run_id
            # After the look at the process: its last lines are then in the log.
            look()
            if ended:
                return
            if stop.is_set() and not drained:
                sys.stderr.write("draining: the driver finishes its batch\n")
                drained = plane.runtime.drain(driver)
            time.sleep(FOLLOW_SECONDS)


@contextmanager
def log_shown(driver: StartedDriver) -> Iterator[Callable[[], None]]:
    """The driver's log, as it grows."""
    with _log_of(driver) as log:
        yield lambda: _copy(log)


@contextmanager
def batches_shown(driver: StartedDriver) -> Iterator[Callable[[], None]]:
    """A line for each batch, wait and warning; the rest is in the log."""
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
    """For one of many drivers."""
    yield lambda: None


def _log_of(driver: StartedDriver) -> BinaryIO:
    """The driver's log; empty if it is not a file of this machine, but a command that shows it."""
    file = Path(driver.log)
    return file.open("rb") if file.is_file() else BytesIO()


def _copy(log: BinaryIO) -> None:
    # The driver's own words, also those of Spark's JVM, which are not always valid UTF-8.
    sys.stderr.write(log.read().decode("utf-8", "replace"))
    sys.stderr.flush()
