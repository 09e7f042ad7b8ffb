"""Data about a pipeline that is stored where its drivers run: their endings, and the version for a rollback.

A receipt shows why a driver stopped. Only the status shows that a driver was killed, or that it never
committed a batch, and the next driver overwrites the status. So the ending is stored before each start.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.control.decide.endings import Ending
from tidemill.control.decide.kept_version import KeptVersion
from tidemill.control.decide.rollback import Rollback
from tidemill.control.runtime import Memory

# Maximum endings kept. Must stay above the largest budget (spec/restarts.py: 50), with other bad endings in
# between.
KEPT_ENDINGS = 100

# Maximum text length, in bytes. A ConfigMap holds 1 MiB, and errors can be long; only the newest endings are
# needed. The kept version takes at most 300,000 of it (kept_version.py).
LONGEST_TEXT = 600_000


class Remembered(BaseModel):
    """All stored data.

    Args:
        endings: Ends of drivers, oldest first.
        kept: The newest version of a stream that has made a batch.
        rollback: Record that a later version was given up.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    endings: list[Ending] = []
    kept: KeptVersion | None = None
    rollback: Rollback | None = None

    def with_ending(self, ending: Ending | None) -> Remembered:
        """Return a copy with one more ending, unless it is known."""
        return self.model_copy(update={"endings": with_ending(self.endings, ending)})


class History:
    """The stored data of one pipeline.

    Args:
        memory: Storage of the data.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def read(self) -> list[Ending]:
        """Return all stored endings."""
        return remembered_in(self._memory.read()).endings

    def note(self, ending: Ending) -> None:
        """Store an ending; storing it again changes nothing."""
        self._change(lambda known: known.with_ending(ending))

    def keep(self, version: KeptVersion) -> None:
        """Store a version, replacing the previous one."""
        self._change(lambda known: known.model_copy(update={"kept": version}))

    def note_rollback(self, rollback: Rollback) -> None:
        """Store that a version was given up."""
        self._change(lambda known: known.model_copy(update={"rollback": rollback}))

    def _change(self, edit: Callable[[Remembered], Remembered]) -> None:
        self._memory.change(lambda text: _text(edit(remembered_in(text))))


def remembered_in(text: str | None) -> Remembered:
    """Return the data in a text; damaged text counts as empty, which only slows down restarts."""
    try:
        return Remembered() if text is None else Remembered.model_validate_json(text)
    except ValidationError:
        return Remembered()


def with_ending(known: list[Ending], ending: Ending | None) -> list[Ending]:
    """Return the stored endings plus one more, unless it is known."""
    if ending is None or any(_same_start(ending, other) for other in known):
        return known
    return [*known, ending]


def _text(known: Remembered) -> str:
    shorter = known.model_copy(update={"endings": known.endings[-KEPT_ENDINGS:]})
    while len((text := shorter.model_dump_json(indent=1)).encode()) > LONGEST_TEXT and shorter.endings:
        shorter = shorter.model_copy(update={"endings": shorter.endings[1:]})
    return text


def _same_start(one: Ending, other: Ending) -> bool:
    return (one.run_id, one.started_at) == (other.run_id, other.started_at)
