"""Send generated events to a Kafka topic, at a given pace, each exactly once.

The producer is idempotent and waits for all replicas, so that an event that was reported as sent is in the
topic once, whatever the connection did.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.dev.iot_events import KINDS, Event, IotSettings, Kind, iot_events
from tidemill.dev.topics import count_partitions
from tidemill.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

# Seconds that an event may wait for the broker, over all retries; then the run fails. Longer than a restart
# of the embedded broker (5 s), shorter than a person waits.
DELIVERY_TIMEOUT_SECONDS = 60

# KB of events that wait for the broker; above that we wait too. Holds a few of the largest records that
# tests send (10 MB) and stays far below the memory of any machine that runs Spark.
BUFFER_KILOBYTES = 64 * 1024

# Bytes of the largest record that the client accepts. The broker's own limit (1 MB unless the topic says
# more) decides, and its refusal is what a caller wants to see.
MAX_RECORD_BYTES = 20_000_000

# Seconds of one wait, for the pace or for room in the buffer; bounds how late a stop is seen.
WAIT_SECONDS = 0.1

# Seconds between two calls of the progress callback.
PROGRESS_SECONDS = 1.0


@dataclass(frozen=True)
class Target:
    """Where to send.

    Args:
        bootstrap_servers: `host:port`, several separated by commas.
        topic: A topic that exists.
        client_options: More librdkafka options, e.g. `security.protocol`; they win over ours.
    """

    bootstrap_servers: str
    topic: str
    client_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def connection(self) -> dict[str, str]:
        """Options with which librdkafka reaches the broker."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.client_options}


@dataclass(frozen=True)
class Pace:
    """How fast and how long; without both limits until asked to stop.

    Args:
        events_per_second: None sends as fast as the broker takes them.
        count: End after so many events.
        duration_seconds: End after so long.
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
    """What was sent; in the report at the end all of it is acknowledged by the broker.

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
        """Events of all kinds."""
        return sum(self.sent.values())


def produce(
    target: Target,
    settings: IotSettings,
    pace: Pace,
    stop: threading.Event | None = None,
    on_progress: Callable[[ProduceReport], None] | None = None,
) -> ProduceReport:
    """Send generated events until the pace's limit, or until `stop` is set; then wait for the last one.

    Raises:
        UsageError: TIDE-DEV-007, if the topic does not exist.
        UnavailableError: TIDE-DEV-008, if the broker does not answer; TIDE-DEV-011, if it did not take an
            event. What it took before stays in the topic.
    """
    count_partitions(target.connection, target.topic)
    run = _Run(target, stop or threading.Event())
    try:
        for event in _paced(iot_events(settings), pace, run):
            run.send(event)
            if on_progress is not None and run.progress_is_due():
                on_progress(run.report())
        run.flush()
    finally:
        run.discard()
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
    """One producer from its first event to its last acknowledgement."""

    def __init__(self, target: Target, stop: threading.Event) -> None:
        self.stop = stop
        self._target = target
        self._producer = _producer(target)
        self._started = time.monotonic()
        self._next_progress = PROGRESS_SECONDS
        self._sent = dict.fromkeys(KINDS, 0)
        self._bytes_sent = 0
        self._last_event_time: datetime | None = None
        self._refused: KafkaError | None = None

    def send(self, event: Event) -> None:
        from confluent_kafka import KafkaException

        try:
            while not self._accepts(event):
                self._serve(WAIT_SECONDS)
        except KafkaException as error:
            raise self._failed(error.args[0]) from error
        self._serve(0)
        self._sent[event.kind] += 1
        self._bytes_sent += len(event.key) + len(event.value or b"")
        self._last_event_time = event.event_time

    def _accepts(self, event: Event) -> bool:
        try:
            self._producer.produce(self._target.topic, event.value, event.key, on_delivery=self._on_delivery)
        except BufferError:
            return False
        return True

    def wait_until(self, seconds: float) -> None:
        """Serve the broker's answers until so long after the start, or until the stop."""
        while not self.stop.is_set() and (left := seconds - self.seconds()) > 0:
            self._serve(min(left, WAIT_SECONDS))

    def flush(self) -> None:
        """Return when every event is acknowledged; each ends by itself within the delivery timeout."""
        while len(self._producer):
            self._serve(WAIT_SECONDS)
        self._serve(0)

    def discard(self) -> None:
        """Forget what is not yet sent, so that nothing goes out after an error was raised."""
        self._producer.purge()

    def seconds(self) -> float:
        return time.monotonic() - self._started

    def progress_is_due(self) -> bool:
        if self.seconds() < self._next_progress:
            return False
        self._next_progress = self.seconds() + PROGRESS_SECONDS
        return True

    def report(self) -> ProduceReport:
        return ProduceReport(dict(self._sent), self._bytes_sent, self.seconds(), self._last_event_time)

    def _serve(self, seconds: float) -> None:
        self._producer.poll(seconds)
        if self._refused is not None:
            raise self._failed(self._refused)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        # Raised later, from _serve: an exception here would come out of librdkafka's poll without context.
        if error is not None and self._refused is None:
            self._refused = error

    def _failed(self, cause: KafkaError) -> UnavailableError:
        return UnavailableError(
            "TIDE-DEV-011",
            "The broker did not take an event.",
            facts={
                "topic": self._target.topic,
                "bootstrap_servers": self._target.bootstrap_servers,
                "cause": f"{cause.name()}: {cause.str()}",
                "handed_over": sum(self._sent.values()),
                "not_acknowledged": len(self._producer),
            },
            fix="look at the broker; events that it acknowledged before are in the topic",
        )


def _producer(target: Target) -> Producer:
    from confluent_kafka import Producer

    return Producer(
        {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            # Milliseconds, at most, between attempts to reach a broker that restarts. librdkafka's own
            # 10,000 look like a stall.
            "reconnect.backoff.max.ms": 1000,
            "compression.type": "lz4",
            "message.timeout.ms": DELIVERY_TIMEOUT_SECONDS * 1000,
            "message.max.bytes": MAX_RECORD_BYTES,
            "queue.buffering.max.kbytes": BUFFER_KILOBYTES,
            **target.connection,
        }
    )
