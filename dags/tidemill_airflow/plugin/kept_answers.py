"""Cache of expensive answers, such as those that read a whole table, until the table has a new version.

Every open page polls every few seconds. The cache reads storage once for all of them.
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

# Maximum number of cached answers; each has at most some hundred rows.
KEPT = 32

# An answer stays valid for this multiple of its read time, even if each batch creates a new version.
REST = 4.0

# Maximum seconds to wait for another request's read.
PATIENCE_SECONDS = 2.0

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _Kept:
    """An answer, its version, and the (monotonic) second until which it stays valid in any case."""

    version: Hashable
    answer: Any
    stays_until: float


class KeptAnswers:
    """The cache of one API server."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._reading = threading.Lock()

    def of(self, path: str, asked: Hashable, read: Callable[[], Answer]) -> Answer:
        """Return the answer of `read` for the table at `path`; `asked` identifies the question.

        Raises:
            HTTPException: See `at`.
        """
        return self.at((path, asked), lambda: _version(path), read)

    def at(self, key: Hashable, version: Callable[[], Hashable], read: Callable[[], Answer]) -> Answer:
        """Return the answer of `read`, cached while `version` is the same.

        Only one answer is read at a time. If another read takes long, the previous answer is returned.

        Raises:
            HTTPException: 503, if there is no previous answer.
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
        # The version is read first, so that a commit during the read invalidates the answer.
        began, newest = time.monotonic(), version()
        known = self._kept.get(key)  # another request may have read it in the meantime
        if known is None or known.version != newest:
            answer = read()
            ended = time.monotonic()
            known = self._kept[key] = _Kept(newest, answer, ended + REST * (ended - began))
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return known


def _version(path: str) -> tuple[str, int] | None:
    """Return the table's id and version, because a recreated table counts from zero again."""
    table = open_table(path)
    return None if table is None else (str(table.metadata().id), table.version())
