"""How the last drivers of a pipeline ended, remembered on the machine that started them.

The file `<pipeline>.history` beside the driver's record. Receipts tell why a driver stopped; that one was
killed, or never committed a batch, is only known until the next one writes its status: so it is noted
before each start.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.control.driver_record import replace_file
from tidemill.control.endings import Ending
from tidemill.control.slot_lock import lock

# Endings kept. The budget looks at an hour of restarts, at most one a minute.
KEPT_ENDINGS = 100


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    endings: list[Ending] = []


class RestartHistory:
    """The endings of one pipeline, oldest first.

    Args:
        folder: The environment's run folder.
        pipeline: Whose.
    """

    def __init__(self, folder: Path, pipeline: str) -> None:
        self._file = folder / f"{pipeline}.history"

    def read(self) -> list[Ending]:
        """All that is remembered. A damaged file counts as none: it only slows restarts down."""
        try:
            return _Document.model_validate_json(self._file.read_bytes()).endings
        except (FileNotFoundError, ValidationError):
            return []

    def with_ending(self, ending: Ending | None) -> list[Ending]:
        """What is remembered, and one more ending if that is news."""
        known = self.read()
        if ending is None or any(_same_start(ending, other) for other in known):
            return known
        return [*known, ending]

    def note(self, ending: Ending) -> None:
        """Remember an ending; noting it again changes nothing."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock(self._file.with_suffix(".history-lock")):
            endings = self.with_ending(ending)[-KEPT_ENDINGS:]
            replace_file(self._file, _Document(endings=endings).model_dump_json(indent=1))


def _same_start(one: Ending, other: Ending) -> bool:
    return (one.run_id, one.started_at) == (other.run_id, other.started_at)
