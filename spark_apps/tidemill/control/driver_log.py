"""Log lines and events of a driver for display, in pieces and without repetition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from tidemill.control.runtime import StartedDriver
from tidemill.spec.secret_mask import mask_secrets

# Maximum lines of one read: enough for Spark's start and its longest stack traces. Older lines are dropped.
LINES_AT_ONCE = 200

# Maximum characters of a line; Spark prints plans of megabytes.
LONGEST_LINE = 2_000

_LEFT_OUT = "… lines are left out here; all of them: "

# Markers by which Airflow's pages fold a log. A driver's line must not hide the task's own lines.
_FOLDS = ("::group::", "::endgroup::")


class LogPosition(BaseModel):
    """Position in the log of one start of a driver, as plain data that can be stored in a database.

    Args:
        run_id: The start's run id.
        started_at: Its start time.
        offset: Bytes read of a file.
        newest_at: Timestamp of the newest line read of a pod.
        newest_count: Number of lines read with that timestamp.
        told: Events that were shown already.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    started_at: datetime
    offset: int = 0
    newest_at: datetime | None = None
    newest_count: int = 0
    told: tuple[str, ...] = ()

    def is_of(self, driver: StartedDriver) -> bool:
        """Return True if this is a position in the log of the driver's start."""
        return (self.run_id, self.started_at) == (driver.run_id, driver.started_at)


@dataclass(frozen=True)
class LogNews:
    """New lines, and the position of the next read."""

    lines: list[str]
    position: LogPosition


def position_in(driver: StartedDriver, since: LogPosition | None) -> LogPosition:
    """Return the position to continue from; the beginning if another start was read before."""
    if since is not None and since.is_of(driver):
        return since
    return LogPosition(run_id=driver.run_id, started_at=driver.started_at)


def newest_of(driver: StartedDriver, lines: list[str], *, is_cut: bool) -> list[str]:
    """Return the newest lines for display, with a note if there were more."""
    shown = shown_lines(lines[-LINES_AT_ONCE:])
    is_cut = is_cut or len(lines) > LINES_AT_ONCE
    return [f"{_LEFT_OUT}{driver.log}", *shown] if is_cut else shown


def shown_lines(lines: Iterable[str]) -> list[str]:
    """Return external lines made safe for a log: one line each, without secrets and control characters."""
    return [_shown(line) for line in lines]


def _shown(line: str) -> str:
    text = mask_secrets(line.replace("\t", "    "))
    for fold in _FOLDS:
        text = text.replace(fold, fold.replace("::", ": :"))
    # Cut before escaping, which makes it longer.
    printable = "".join(each if each.isprintable() else _escaped(each) for each in text[:LONGEST_LINE])
    return printable if len(text) <= LONGEST_LINE else f"{printable}…"


def _escaped(character: str) -> str:
    """Return the escape sequence of a line end, terminal command or direction mark."""
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
