"""What a driver's place tells of it, for a person: log lines and events, piece by piece and none twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from tidemill.control.runtime import StartedDriver
from tidemill.spec.secret_mask import mask_secrets

# Lines of one look: Spark's start and its longest stack traces fit. Of more, the newest count.
LINES_AT_ONCE = 200

# Longest line that is shown, in characters; Spark prints plans of megabytes.
LONGEST_LINE = 2_000

_LEFT_OUT = "… lines are left out here; all of them: "

# What Airflow's pages fold a log by. A driver's line must not hide those of the task.
_FOLDS = ("::group::", "::endgroup::")


class LogPosition(BaseModel):
    """How far the log of one start of a driver was read; plain data, so that it can wait in a database.

    Args:
        run_id: The start's run.
        started_at: When it started.
        offset: Bytes read of a file.
        newest_at: Moment of the newest line read of a pod.
        newest_count: How many lines of that moment were read.
        told: Events that were told.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    started_at: datetime
    offset: int = 0
    newest_at: datetime | None = None
    newest_count: int = 0
    told: tuple[str, ...] = ()

    def is_of(self, driver: StartedDriver) -> bool:
        """Whether it is a position in the log of this start."""
        return (self.run_id, self.started_at) == (driver.run_id, driver.started_at)


@dataclass(frozen=True)
class LogNews:
    """What is new, and from where the next look goes on."""

    lines: list[str]
    position: LogPosition


def position_in(driver: StartedDriver, since: LogPosition | None) -> LogPosition:
    """Where to go on: at the beginning, if another start was read before."""
    if since is not None and since.is_of(driver):
        return since
    return LogPosition(run_id=driver.run_id, started_at=driver.started_at)


def newest_of(driver: StartedDriver, lines: list[str], *, is_cut: bool) -> list[str]:
    """The newest lines, fit to be shown, with a word if there were more."""
    shown = shown_lines(lines[-LINES_AT_ONCE:])
    is_cut = is_cut or len(lines) > LINES_AT_ONCE
    return [f"{_LEFT_OUT}{driver.log}", *shown] if is_cut else shown


def shown_lines(lines: Iterable[str]) -> list[str]:
    """Someone else's lines, safe in a log of ours: one line each, without secrets and control characters."""
    return [_shown(line) for line in lines]


def _shown(line: str) -> str:
    text = mask_secrets(line.replace("\t", "    "))
    for fold in _FOLDS:
        text = text.replace(fold, fold.replace("::", ": :"))
    # Cut before it is made longer.
    printable = "".join(each if each.isprintable() else _escaped(each) for each in text[:LONGEST_LINE])
    return printable if len(text) <= LONGEST_LINE else f"{printable}…"


def _escaped(character: str) -> str:
    """Line ends of all kinds, terminal commands, invisible marks that turn the direction of writing."""
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
