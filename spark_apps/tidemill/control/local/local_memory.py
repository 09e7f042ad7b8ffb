"""One text about a pipeline, in a file of this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tidemill.control.local.driver_record import replace_file
from tidemill.control.local.slot_lock import lock


class LocalMemory:
    """The file `<pipeline>.history` next to the driver's record.

    Args:
        folder: The environment's run folder.
        pipeline: The pipeline.
    """

    def __init__(self, folder: Path, pipeline: str) -> None:
        self._file = folder / f"{pipeline}.history"

    def read(self) -> str | None:
        """Return the text; None if the file does not exist or is not valid text."""
        try:
            return self._file.read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def change(self, edit: Callable[[str | None], str]) -> None:
        """Replace the text by the result of `edit`, one caller at a time."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock(self._file.with_suffix(".history-lock")):
            replace_file(self._file, edit(self.read()))
