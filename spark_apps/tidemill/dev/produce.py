"""Send generated events to a Kafka topic or an event hub, at a given pace."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from tidemill.dev.iot_events import KINDS, Event, IotSettings, Kind, iot_events
from tidemill.dev.kafka_outlet import KafkaOutlet
from tidemill.dev.kafka_outlet import Target as Target
from tidemill.dev.topics import count_partitions
from tidemill.errors import UsageError

if TYPE_CHECKING:
    from tidemill.dev.hub_outlet import HubTarget

# Maximum seconds to sleep at once while events wait for their time. A stop is noticed after at most this
# time.
WAIT_SECONDS = 0.1

# Seconds between two calls of the progress callback.
PROGRESS_SECONDS = 1.0


class Outlet(Protocol):
    """The destination of events."""

    def send(self, event: Event) -> None:
        """Hand an event over; may wait for room."""

    def serve(self, seconds: float) -> None:
        """Let the outlet work for this time."""

    def flush(self) -> None:
        """Return when every event is acknowledged."""

    def discard(self) -> None:
        """Drop unsent events, so that none is sent after an error was raised."""


@dataclass(frozen=True)
class Pace:
    """Rate and limits; without limits, events are sent until a stop is requested.

    Args:
        events_per_second: None sends as fast as the broker accepts events.
        count: End after this number of events.
        duration_seconds: End after this time.
        not_ahead: Wait with an event of the future until its time has come.
    """

    events_per_second: float | None = None
    count: int | None = None
    duration_seconds: float | None = None
    not_ahead: bool = False

    def __post_init__(self) -> None:
        if self.events_per_second is not None and self.events_per_second <= 0:
            raise UsageError(
                "TIDE-DEV-012",
                "Events cannot be sent at this pace.",
                facts={"events_per_second": self.events_per_second},
                fix="use a rate above 0, or none to send as fast as possible",
            )


@dataclass(frozen=True)
class ProduceReport:
    """Sent events; in the final report all of them are acknowledged.

    Args:
        sent: Events by kind.
        bytes_sent: Bytes of keys and values.
        seconds: Time since the start.
        last_event_time: Event time of the last event, None if there was none.
    """

    sent: Mapping[Kind, int]
    bytes_sent: int
    seconds: float
    last_event_time: datetime | None

    @property
    def total(self) -> int:
        """Return the number of events of all kinds."""
        return sum(self.sent.values())


def produce(
    target: Target | HubTarget,
    settings: IotSettings,
    pace: Pace,
    stop: threading.Event | None = None,
    on_progress: Callable[[ProduceReport], None] | None = None,
) -> ProduceReport:
    """Send generated events until the limit or until `stop` is set; then wait for the last one.

    Raises:
        UsageError: TIDE-DEV-007, if the topic or hub does not exist.
        SpecError: TIDE-HUB-011, if a hub rejects the connection string.
        UnavailableError: TIDE-DEV-008, if broker or hub does not answer; TIDE-DEV-011, if it did not accept
            an event. Events accepted before stay there.
    """
    if isinstance(target, Target):
        count_partitions(target.connection, target.topic)
        outlet: Outlet = KafkaOutlet(target)
    else:
        # Imported here, because the SDK loads slowly.
        from tidemill.dev.hub_outlet import HubOutlet

        outlet = HubOutlet(target)
    run = _Run(outlet, stop or threading.Event())
    try:
        for event in _paced(iot_events(settings), pace, run):
            run.send(event)
            if on_progress is not None and run.progress_is_due():
                on_progress(run.report())
        outlet.flush()
    finally:
        outlet.discard()
    return run.report()


def _paced(events: Iterator[Event], pace: Pace, run: _Run) -> Iterator[Event]:
    for number, event in enumerate(itertools.islice(events, pace.count)):
        due = number / pace.events_per_second if pace.events_per_second else 0.0
        ends = pace.duration_seconds if pace.duration_seconds is not None else float("inf")
        if pace.not_ahead:
            due = max(due, run.seconds() + (event.event_time - datetime.now(UTC)).total_seconds())
        run.wait_until(min(due, ends))
        if run.stop.is_set() or run.seconds() >= ends:
            return
        yield event


class _Run:
    """Counts and clock of one run."""

    def __init__(self, outlet: Outlet, stop: threading.Event) -> None:
        self.stop = stop
        self._outlet = outlet
        self._started = time.monotonic()
        self._next_progress = PROGRESS_SECONDS
        self._sent = dict.fromkeys(KINDS, 0)
        self._bytes_sent = 0
        self._last_event_time: datetime | None = None

    def send(self, event: Event) -> None:
        self._outlet.send(event)
        self._sent[event.kind] += 1
        self._bytes_sent += len(event.key) + len(event.value or b"")
        self._last_event_time = event.event_time

    def wait_until(self, seconds: float) -> None:
        """Let the outlet work until this time after the start, or until the stop."""
        while not self.stop.is_set() and (left := seconds - self.seconds()) > 0:
            self._outlet.serve(min(left, WAIT_SECONDS))

    def seconds(self) -> float:
        return time.monotonic() - self._started

    def progress_is_due(self) -> bool:
        if self.seconds() < self._next_progress:
            return False
        self._next_progress = self.seconds() + PROGRESS_SECONDS
        return True

    def report(self) -> ProduceReport:
        return ProduceReport(dict(self._sent), self._bytes_sent, self.seconds(), self._last_event_time)
