"""A backfill's turn to commit: while a backfill has it, drivers of the pipeline wait with their next batch.

Delta refuses a commit that replaces rows if another writer has appended to the table since the commit began,
whichever rows these are. If a stream commits more often than the rows of a backfill take to write, the
backfill would lose every race. So after a few losses it takes its turn, by a file of the pipeline that it
changes every few seconds. A killed backfill leaves a file that no longer changes, so drivers soon stop
waiting for it. No clocks are compared.
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

# Seconds between two changes of the file, and seconds without a change after which the backfill counts as
# dead.
BEAT_SECONDS = 5.0
SILENT_AFTER_SECONDS = 30.0

# Maximum length of a turn, in beats: five minutes. A stream that waits longer would become unhealthy, because
# it makes no progress. A commit that takes longer needs a smaller range.
MOST_BEATS = 60

# Seconds between two checks of a waiting driver.
LOOK_SECONDS = 0.5

log = structlog.get_logger()


@contextmanager
def turn(store: Store, path: str, run_id: str) -> Iterator[None]:
    """Hold the turn during a `with` block, for at most five minutes."""
    ended = threading.Event()

    def beat() -> None:
        for number in range(1, MOST_BEATS):
            if ended.wait(BEAT_SECONDS):
                return
            # If this beat fails, the worst case is that the stream continues and the commit is tried again.
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
        store: Store of the control files.
        path: The pipeline's turn file.
        drain: Ends the wait.
    """

    def __init__(self, store: Store, path: str, drain: Drain) -> None:
        self._store = store
        self._path = path
        self._drain = drain
        self._left_by_a_dead_one: bytes | None = None

    def wait(self) -> None:
        """Return once no living backfill has the turn, or a stop is requested."""
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
