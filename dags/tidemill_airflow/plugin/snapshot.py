"""State of all pipelines, read in the background, so that no browser request reads storage for it.

One thread of each API server takes a snapshot every few seconds while a page is open. Otherwise it takes one
every half minute, so that charts have no gaps. Read errors are shown in the rows or in `problem`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import ValidationError

from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.query_report import read_query_report
from tidemill.control.decide.reconcile_record import read_record
from tidemill.control.plane import ControlPlane
from tidemill.control.stream_status import READERS, PipelineState, all_states
from tidemill.errors import SpecError, TidemillError
from tidemill.spec.pipeline import PipelineSpec
from tidemill_airflow.place import Place
from tidemill_airflow.plugin.answers import HistoryPoint
from tidemill_airflow.plugin.batch_history import merged
from tidemill_airflow.plugin.overview import Seen

# Seconds between two snapshots while a page is open; the shortest usual trigger is a few seconds.
WATCHED_SECONDS = 3.0

# Seconds between two snapshots while no page is open. Drivers keep ten batches, so this must not exceed ten
# triggers of three seconds.
UNWATCHED_SECONDS = 30.0

# Seconds after its last request for which a page counts as open; pages poll every few seconds.
OPEN_SECONDS = 60.0

# The pause after a snapshot is this multiple of its duration, so snapshots use at most a fifth of one core.
REST = 4.0

# Place of the empty snapshot before the first one.
NOWHERE = Place(project="", environment="")

Read = TypeVar("Read")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Look:
    """One snapshot of all pipelines.

    Args:
        at: Time at which it ended; None before the first one.
        seen: Pipelines by name.
        history: Newest batches of each pipeline.
        problem: Error of a failed snapshot, whose other fields are from the previous one; empty if none.
        place: Project and environment of the pipelines.
        reconciled_at: End of the newest reconciliation; None if none is known.
    """

    at: datetime | None = None
    took_seconds: float = 0.0
    seen: Mapping[str, Seen] = field(default_factory=dict)
    history: Mapping[str, tuple[HistoryPoint, ...]] = field(default_factory=dict)
    problem: str = ""
    place: Place = NOWHERE
    reconciled_at: datetime | None = None

    @property
    def streams_wanted(self) -> bool:
        """Return True if any stream should run."""
        return any(each.state.facts.is_wanted for each in self.seen.values())


class Snapshot:
    """The newest snapshot, refreshed in the background.

    Args:
        find_place: Returns project and environment. Called again after a failed snapshot, so that a wrong
            setting is shown on the page and can be fixed while Airflow runs.
        open_plane: Opens the control plane there.
    """

    def __init__(
        self, find_place: Callable[[], Place], open_plane: Callable[[Place], ControlPlane] = Place.open
    ) -> None:
        self._find_place = find_place
        self._open = open_plane
        self._place = NOWHERE
        self._plane: ControlPlane | None = None
        self._look = Look()
        self._asked_at = float("-inf")
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._specs: dict[str, tuple[float, PipelineSpec]] = {}

    def begin(self) -> None:
        """Take snapshots in the background until `end`."""
        self._ended.clear()
        threading.Thread(target=self._go_on, name="tidemill-snapshot", daemon=True).start()

    def end(self) -> None:
        """Stop taking snapshots."""
        self._ended.set()
        self._wake.set()

    def newest(self) -> Look:
        """Return the newest snapshot, and record that a page is open."""
        was_watched = time.monotonic() - self._asked_at < OPEN_SECONDS
        self._asked_at = time.monotonic()
        if not was_watched:
            self._wake.set()
        return self._look

    def plane(self) -> ControlPlane:
        """Return the control plane.

        Raises:
            TidemillError: If environment or storage cannot be found or opened.
        """
        with self._lock:
            if self._plane is None:
                self._place = self._find_place()
                self._plane = self._open(self._place)
            return self._plane

    def refresh(self) -> Look:
        """Take a snapshot now."""
        began = time.monotonic()
        try:
            plane = self.plane()
            seen = _look_at_all(plane, self._spec_of)
            history = {
                name: merged(self._look.history.get(name, ()), each.report) for name, each in seen.items()
            }
            seen = {name: with_recent(each, history[name]) for name, each in seen.items()}
            took = time.monotonic() - began
            # The next reconciliation replaces a damaged record; until then the previous time is kept.
            record = _readable(lambda: read_record(plane.store, plane.layout))
            reconciled_at = self._look.reconciled_at if record is None else record.ended_at
            self._look = Look(
                datetime.now(UTC), took, seen, history, place=self._place, reconciled_at=reconciled_at
            )
        except Exception as error:  # noqa: BLE001  # an entry point; the page shows the error
            log.warning("the streams cannot be looked at: %s", error)
            with self._lock:
                # Reopen, so that a changed environment file or new credentials are used in the next snapshot.
                self._plane = None
            self._look = replace(self._look, problem=_words(error))
        return self._look

    def _go_on(self) -> None:
        while not self._ended.is_set():
            self._wake.clear()
            took = self.refresh().took_seconds
            is_watched = time.monotonic() - self._asked_at < OPEN_SECONDS
            self._wake.wait(max(WATCHED_SECONDS if is_watched else UNWATCHED_SECONDS, REST * took))

    def _spec_of(self, plane: ControlPlane, name: str) -> PipelineSpec | None:
        """Return the declaration, read again if its file changed; None if it cannot be read."""
        try:
            changed_at = plane.environment.project.pipeline_file(name).stat().st_mtime
            known = self._specs.get(name)
            if known is None or known[0] != changed_at:
                known = self._specs[name] = (changed_at, plane.environment.project.load_pipeline(name))
        except (SpecError, OSError):
            return None
        return known[1]


def _look_at_all(
    plane: ControlPlane, spec_of: Callable[[ControlPlane, str], PipelineSpec | None]
) -> dict[str, Seen]:
    def seen(state: PipelineState) -> Seen:
        name = state.facts.pipeline
        holds = read_holds(plane.store, plane.layout, name)
        report = _readable(lambda: read_query_report(plane.store, plane.layout, name))
        return Seen(state, spec_of(plane, name), tuple(holds), report)

    with ThreadPoolExecutor(READERS) as readers:
        return {each.name: each for each in readers.map(seen, all_states(plane))}


def with_recent(seen: Seen, points: tuple[HistoryPoint, ...]) -> Seen:
    """Return the pipeline with rates and lag of its newest batches."""
    # A stream processes a batch in a part of its trigger interval, so its throughput is its input rate.
    is_run = seen.state.facts.mode == "incremental"
    told = (point.processed_rate if is_run else point.input_rate for point in points)
    rates = tuple(round(rate, 1) for rate in told if rate is not None)
    lags = tuple(point.lag for point in points if point.lag is not None)
    return replace(seen, rates=rates, lags=lags)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, TidemillError) else f"{type(error).__name__}: {error}"


def _readable(read: Callable[[], Read | None]) -> Read | None:
    """Return the result, or None if the data is damaged, which the doctor reports."""
    try:
        return read()
    except (TidemillError, ValidationError):
        return None
