"""The line of a transform that created each DataFrame, recorded while it runs, not guessed from its text."""

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

_LIBRARIES = tuple(
    f"{Path(inspect.getfile(sys.modules[name])).parent}{os.sep}" for name in ("pyspark", "py4j")
)


@dataclass(frozen=True)
class MadeFrame:
    """A DataFrame and the place in the user's code that created it, as `file:line`."""

    frame: DataFrame
    place: str


class CallSites:
    """The DataFrames that a transform creates, in order.

    Args:
        folder: Folder with the user's files. A call from other code counts for the line in this folder that
            led to it.
    """

    def __init__(self, folder: Path) -> None:
        self.made: list[MadeFrame] = []
        self._folder = _inside(folder)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record each call in this thread that returns a DataFrame from pyspark to code outside pyspark."""
        before = sys.getprofile()
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _look(self, frame: FrameType, event: str, value: Any) -> None:
        if event != "return" or not isinstance(value, DataFrame) or not _is_library(frame):
            return
        caller = frame.f_back
        if caller is None or _is_library(caller):
            return
        while caller is not None and not caller.f_code.co_filename.startswith(self._folder):
            caller = caller.f_back
        if caller is not None:
            self.made.append(MadeFrame(value, f"{caller.f_code.co_filename}:{caller.f_lineno}"))


@dataclass(frozen=True)
class FailedCall:
    """The failed line of the user's code, and the pyspark method that it called; empty if none."""

    place: str
    method: str


def failed_call(traceback: TracebackType | None, folder: Path) -> FailedCall | None:
    """Return the last line of the traceback in the folder of the user's files; None for a query."""
    steps = []
    while traceback is not None:
        steps.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    own = [n for n, (frame, _) in enumerate(steps) if frame.f_code.co_filename.startswith(_inside(folder))]
    if not own:
        return None
    frame, line = steps[own[-1]]
    called = next((below for below, _ in steps[own[-1] + 1 :] if _is_library(below)), None)
    return FailedCall(f"{frame.f_code.co_filename}:{line}", "" if called is None else called.f_code.co_name)


def _inside(folder: Path) -> str:
    return f"{folder.absolute()}{os.sep}"


def _is_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LIBRARIES)
