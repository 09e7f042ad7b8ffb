"""What is remembered of a pipeline where its drivers run: how they ended, and which version may come back.

Receipts tell why a driver stopped; that one was killed, or never committed a batch, is only known until the
next one writes its status: so it is noted before each start.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.control.decide.endings import Ending
from tidemill.control.decide.kept_version import KeptVersion
from tidemill.control.decide.rollback import Rollback
from tidemill.control.runtime import Memory

# Endings kept. Must stay above the largest budget (spec/restarts.py: 50), with other bad ends in between.
KEPT_ENDINGS = 100

# Longest text, in bytes. A ConfigMap holds 1 MiB, and errors can be long; the newest endings count. Of it the
# version that is kept takes 300,000 at most (kept_version.py).
LONGEST_TEXT = 600_000


class Remembered(BaseModel):
    """All that is remembered.

    Args:
        endings: How drivers ended, oldest first.
        kept: The newest version of a stream that has made a batch.
        rollback: That a version after it was given up.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    endings: list[Ending] = []
    kept: KeptVersion | None = None
    rollback: Rollback | None = None

    def with_ending(self, ending: Ending | None) -> Remembered:
        """The same, and one more ending if that is news."""
        return self.model_copy(update={"endings": with_ending(self.endings, ending)})


class History:
    """The memory of one pipeline.

    Args:
        memory: Where it is kept.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def read(self) -> list[Ending]:
        """All endings that are remembered."""
        return remembered_in(self._memory.read()).endings

    def note(self, ending: Ending) -> None:
        """Remember an ending; noting it again changes nothing."""
        self._change(lambda known: known.with_ending(ending))

    def keep(self, version: KeptVersion) -> None:
        """Keep a version, in place of the one before."""
        self._change(lambda known: known.model_copy(update={"kept": version}))

    def note_rollback(self, rollback: Rollback) -> None:
        """Remember that a version was given up."""
        self._change(lambda known: known.model_copy(update={"rollback": rollback}))

    def _change(self, edit: Callable[[Remembered], Remembered]) -> None:
        self._memory.change(lambda text: _text(edit(remembered_in(text))))


def remembered_in(text: str | None) -> Remembered:
    """What a memory's text tells. A damaged one counts as none: it only slows restarts down."""
    try:
        return Remembered() if text is None else Remembered.model_validate_json(text)
    except ValidationError:
        return Remembered()


def with_ending(known: list[Ending], ending: Ending | None) -> list[Ending]:
    """What is remembered, and one more ending if that is news."""
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
