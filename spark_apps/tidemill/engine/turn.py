"""A backfill's turn to commit: as long as it has it, drivers of the pipeline wait with their next batch.

Delta refuses a commit that replaces rows if someone has appended to the table since it began, whichever rows
those are. Beside a stream that commits more often than the rows of a backfill take to write, it would lose
every race. So, after a few, it takes its turn: a file of the pipeline that it changes every few seconds. A
file that stays the same, of a backfill that was killed, makes nobody wait for long; no clocks are compared.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import structlog

from tidemill.engine.drain import Drain
from tidemill.errors import TidemillError
from tidemill.storage.store import Store

# Seconds between two changes of the file, and without any after which its backfill counts as dead.
BEAT_SECONDS = 5.0
SILENT_AFTER_SECONDS = 30.0

# Longest turn, in beats: five minutes. A stream that waits longer would be red for want of progress; and a
# commit that takes longer is for a smaller range.
MOST_BEATS = 60

# Seconds between two looks of a driver that waits.
LOOK_SECONDS = 0.5

log = structlog.get_logger()


@contextmanager
def turn(store: Store, path: str, run_id: str) -> Iterator[None]:
    """Have the turn for the length of a `with` block, or for five minutes."""
    ended = threading.Event()

    def beat() -> None:
        for number in range(1, MOST_BEATS):
            if ended.wait(BEAT_SECONDS):
                return
            # Without this beat the stream goes on at worst, and the commit is tried again.
            with suppress(TidemillError):
                store.write_json(path, _document(run_id, number))

    store.write_json(path, _document(run_id, 0))
    beats = threading.Thread(target=beat, name="turn", daemon=True)
    beats.start()
    try:
        yield
    finally:
        ended.set()
        beats.join()
        store.delete(path)


class Waiting:
    """A driver's wait for the turn of a backfill.

    Args:
        store: Control files.
        path: The pipeline's file.
        drain: Ends the wait.
    """

    def __init__(self, store: Store, path: str, drain: Drain) -> None:
        self._store = store
        self._path = path
        self._drain = drain
        self._left_by_a_dead_one: bytes | None = None

    def wait(self) -> None:
        """Return once no living backfill has the turn, or a stop is asked for."""
        last, since = None, time.monotonic()
        while (found := self._store.read(self._path)) not in (None, self._left_by_a_dead_one):
            if found != last:
                if last is None:
                    log.info("waits_for_backfill", turn=self._path)
                last, since = found, time.monotonic()
            elif time.monotonic() - since > SILENT_AFTER_SECONDS:
                log.warning("backfill_is_silent", turn=self._path)
                self._left_by_a_dead_one = found
                return
            if self._drain.wait(LOOK_SECONDS):
                return


def _document(run_id: str, beat: int) -> dict[str, Any]:
    return {"v": 1, "by": run_id, "beat": beat}
