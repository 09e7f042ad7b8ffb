"""Which line of a transform made which DataFrame: seen while it runs, not guessed from its text."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from pyspark.sql import DataFrame

# Spark's code, and the engine's own, which calls the transform or stands for it (sql_transform.py).
_LIBRARIES = (
    *(f"{Path(inspect.getfile(sys.modules[name])).parent}{os.sep}" for name in ("pyspark", "py4j")),
    f"{Path(__file__).parents[1]}{os.sep}",
)


@dataclass(frozen=True)
class MadeFrame:
    """A DataFrame and the place in the user's code that made it, as `file:line`."""

    frame: DataFrame
    place: str


class CallSites:
    """The DataFrames that a transform makes, in order."""

    def __init__(self) -> None:
        self.made: list[MadeFrame] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch this thread: each call into pyspark that gives a DataFrame to code outside of it."""
        before = sys.getprofile()
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _look(self, frame: FrameType, event: str, value: Any) -> None:
        if event != "return" or not isinstance(value, DataFrame) or frame.f_back is None:
            return
        caller = frame.f_back
        if _is_library(frame) and not _is_library(caller):
            self.made.append(MadeFrame(value, f"{caller.f_code.co_filename}:{caller.f_lineno}"))


@dataclass(frozen=True)
class FailedCall:
    """The line of the user's code that failed, and the pyspark method that it called; empty if none."""

    place: str
    method: str


def failed_call(traceback: TracebackType | None) -> FailedCall | None:
    """Where the user's code failed: the last line outside of pyspark, below the caller of the transform."""
    steps = []
    # The first step is the caller's own.
    while traceback is not None and (traceback := traceback.tb_next) is not None:
        steps.append((traceback.tb_frame, traceback.tb_lineno))
    own = [place for place, (frame, _) in enumerate(steps) if not _is_library(frame)]
    if not own:
        return None
    frame, line = steps[own[-1]]
    below = steps[own[-1] + 1 :]
    return FailedCall(f"{frame.f_code.co_filename}:{line}", below[0][0].f_code.co_name if below else "")


def _is_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LIBRARIES)
