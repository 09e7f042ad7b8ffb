"""Progress of long work on standard error: a live bar on a terminal, occasional lines elsewhere.

    with progress_bar("orders: checkpoint", "files") as show:
        show(Stand(3, 40, size=1200))

Standard output stays free for scripts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from tidemill.spec.readable import readable_size, short_duration

if TYPE_CHECKING:
    from rich.console import Console

# Minimum seconds between two lines without a terminal, so that a CI log stays readable.
LINE_SECONDS = 10.0
# Maximum seconds between two lines while the work reports progress. CI kills jobs after minutes of silence.
SILENT_SECONDS = 60.0

# Cells of the bar, so that bar and text fit into 80 columns.
BAR_CELLS = 20


@dataclass(frozen=True)
class Stand:
    """The progress of some work.

    Args:
        done: Number of finished parts.
        total: Total number of parts; None if unknown.
        step: The current step.
        note: Additional text.
        size: Bytes so far; 0 if they are not counted.
        left: Remaining time, if the work has a better estimate than the average time of finished parts.
    """

    done: int = 0
    total: int | None = None
    step: str = ""
    note: str = ""
    size: int = 0
    left: timedelta | None = None


Show = Callable[[Stand], None]


@contextmanager
def progress_bar(what: str, unit: str, *, quiet: bool = False) -> Iterator[Show]:
    """Show progress until the block ends. Call it from one thread only.

    Args:
        what: Name of the work.
        unit: Unit of its parts, e.g. `files`.
        quiet: Show nothing, as with `--json`.
    """
    if quiet:
        yield lambda _: None
        return
    screen = error_console()
    shown = _live if screen.is_terminal and not screen.is_dumb_terminal else _lines
    with shown(screen, what, unit) as show:
        yield show


def error_console() -> Console:
    """Return a console for standard error.

    FORCE_COLOR, which CI sets, does not make it a terminal, because a bar would fill the CI log.
    """
    from rich.console import Console

    return Console(stderr=True, force_terminal=sys.stderr.isatty())


def words(unit: str, stand: Stand, seconds: float) -> str:
    """Return a text such as `12 of 40 files, 1.2 GB, 30.1 MB/s, 3 min left` after `seconds` of work."""
    told = [f"{stand.done} of {'?' if stand.total is None else stand.total} {unit}", stand.step, stand.note]
    if stand.size:
        told.append(readable_size(stand.size))
        if seconds >= 1:
            told.append(f"{readable_size(stand.size / seconds)}/s")
    left = _left(stand, seconds)
    if left is not None:
        told.append(f"{short_duration(left)} left")
    return ", ".join(part for part in told if part)


def is_due(before: Stand, now: Stand, seconds: float) -> bool:
    """Return True if a line is due `seconds` after the last one: for each tenth and for each step."""
    moved = (_tenth(now), now.step) != (_tenth(before), before.step)
    return seconds >= (LINE_SECONDS if moved else SILENT_SECONDS)


def _left(stand: Stand, seconds: float) -> timedelta | None:
    if not stand.total or not 0 < stand.done < stand.total:
        return None
    if stand.left is None and seconds >= 1:
        return timedelta(seconds=seconds * (stand.total - stand.done) / stand.done)
    return stand.left


def _tenth(stand: Stand) -> int:
    return -1 if not stand.total else 10 * stand.done // stand.total


@contextmanager
def _live(screen: Console, what: str, unit: str) -> Iterator[Show]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(BAR_CELLS),
        TaskProgressColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        TimeElapsedColumn(),
    )
    began = time.monotonic()
    with Progress(*columns, console=screen, redirect_stdout=False) as bar:
        task = bar.add_task(what, total=None, words="")

        def show(stand: Stand) -> None:
            told = words(unit, stand, time.monotonic() - began)
            bar.update(task, completed=stand.done, total=stand.total, words=told)

        yield show


@contextmanager
def _lines(screen: Console, what: str, unit: str) -> Iterator[Show]:
    """Write a line for the first report, for some reports in between, and for the last if the work ends."""
    began = time.monotonic()
    newest: Stand | None = None
    written: tuple[Stand, float] | None = None

    def write(stand: Stand, now: float) -> None:
        nonlocal written
        written = stand, now
        told = f"{what}: {words(unit, stand, now - began)}"
        screen.print(told, markup=False, highlight=False, soft_wrap=True)

    def show(stand: Stand) -> None:
        nonlocal newest
        newest, now = stand, time.monotonic()
        if written is None or is_due(written[0], stand, now - written[1]):
            write(stand, now)

    yield show
    if newest is not None and (written is None or written[0] != newest):
        write(newest, time.monotonic())
