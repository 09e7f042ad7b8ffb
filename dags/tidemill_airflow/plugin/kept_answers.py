"""Answers that need much of storage, such as a whole table, kept until that has another version.

Every open page asks every few seconds; storage is read for all of them together.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tidemill.ledger.read import open_table
from tidemill_airflow.plugin.storage_gate import too_slow

# Answers kept; one has at most some hundred rows.
KEPT = 32

# An answer stays for this many times as long as it took, also where each batch makes another version.
REST = 4.0

# Seconds to wait for what is read for somebody else.
PATIENCE_SECONDS = 2.0

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _Kept:
    """An answer, of which version, and the (monotonic) second until which it stays in any case."""

    version: Hashable
    answer: Any
    stays_until: float


class KeptAnswers:
    """Of one API server."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._reading = threading.Lock()

    def of(self, path: str, asked: Hashable, read: Callable[[], Answer]) -> Answer:
        """What `read` answers of the table at `path`; `asked` tells its questions apart.

        Raises:
            HTTPException: As `at`.
        """
        return self.at((path, asked), lambda: _version(path), read)

    def at(self, key: Hashable, version: Callable[[], Hashable], read: Callable[[], Answer]) -> Answer:
        """What `read` answers, while `version` is the same.

        One answer is read at a time. Who finds another one being read for long gets the answer before.

        Raises:
            HTTPException: 503, if there is none.
        """
        known = self._kept.get(key)
        if known is not None and time.monotonic() < known.stays_until:
            return cast(Answer, known.answer)
        if not self._reading.acquire(timeout=self._patience):
            if known is None:
                raise too_slow()
            return cast(Answer, known.answer)
        try:
            return cast(Answer, self._newest(key, version, read).answer)
        finally:
            self._reading.release()

    def _newest(self, key: Hashable, version: Callable[[], Hashable], read: Callable[[], Answer]) -> _Kept:
        # Before it is read: a commit in between counts as one after it.
        began, newest = time.monotonic(), version()
        known = self._kept.get(key)  # perhaps somebody has read it meanwhile
        if known is None or known.version != newest:
            answer = read()
            ended = time.monotonic()
            known = self._kept[key] = _Kept(newest, answer, ended + REST * (ended - began))
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return known


def _version(path: str) -> tuple[str, int] | None:
    """Which table, and its version: one that is made anew counts from zero again."""
    table = open_table(path)
    return None if table is None else (str(table.metadata().id), table.version())
