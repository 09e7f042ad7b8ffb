"""How the last drivers of a pipeline ended, remembered where they run.

Receipts tell why a driver stopped; that one was killed, or never committed a batch, is only known until the
next one writes its status: so it is noted before each start.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.control.endings import Ending
from tidemill.control.runtime import Memory

# Endings kept. Must stay above the largest budget (spec/restarts.py: 50), with other bad ends in between.
KEPT_ENDINGS = 100

# Longest history, in characters. A ConfigMap holds 1 MiB, and errors can be long; the newest endings count.
LONGEST_HISTORY = 300_000


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    endings: list[Ending] = []


class RestartHistory:
    """The endings of one pipeline, oldest first.

    Args:
        memory: Where they are kept.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def read(self) -> list[Ending]:
        """All that is remembered."""
        return endings_in(self._memory.read())

    def note(self, ending: Ending) -> None:
        """Remember an ending; noting it again changes nothing."""
        self._memory.change(lambda known: _text(with_ending(endings_in(known), ending)))


def endings_in(text: str | None) -> list[Ending]:
    """What a memory's text tells. A damaged one counts as none: it only slows restarts down."""
    try:
        return [] if text is None else _Document.model_validate_json(text).endings
    except ValidationError:
        return []


def with_ending(known: list[Ending], ending: Ending | None) -> list[Ending]:
    """What is remembered, and one more ending if that is news."""
    if ending is None or any(_same_start(ending, other) for other in known):
        return known
    return [*known, ending]


def _text(endings: list[Ending]) -> str:
    kept = endings[-KEPT_ENDINGS:]
    while len(text := _Document(endings=kept).model_dump_json(indent=1)) > LONGEST_HISTORY:
        kept = kept[1:]
    return text


def _same_start(one: Ending, other: Ending) -> bool:
    return (one.run_id, one.started_at) == (other.run_id, other.started_at)
