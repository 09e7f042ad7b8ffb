"""Send events to a Kafka topic, each exactly once.

The producer is idempotent and waits for all replicas. So an event that was reported as sent is in the topic
once, even after connection errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.errors import UnavailableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from tidemill.dev.iot_events import Event

# Maximum seconds for which an event waits for the broker, over all retries; then the run fails. Longer than a
# restart of the embedded broker (5 s), shorter than a user's patience.
DELIVERY_TIMEOUT_SECONDS = 60

# Maximum KB of events that wait for the broker; above that the caller waits. Enough for a few of the largest
# records that tests send (10 MB), and far below the memory of any machine that runs Spark.
BUFFER_KILOBYTES = 64 * 1024

# Maximum bytes of a record that the client accepts. The broker's own limit decides (1 MB unless the topic
# allows more), so that the caller sees the broker's rejection.
MAX_RECORD_BYTES = 20_000_000

# Seconds of one wait for room in the buffer.
_WAIT_SECONDS = 0.1


@dataclass(frozen=True)
class Target:
    """The destination of events.

    Args:
        bootstrap_servers: `host:port`, several separated by commas.
        topic: A topic that exists.
        client_options: More librdkafka options, e.g. `security.protocol`, which override the defaults.
    """

    bootstrap_servers: str
    topic: str
    client_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def connection(self) -> dict[str, str]:
        """Return the librdkafka options that reach the broker."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.client_options}


class KafkaOutlet:
    """One producer from its first event to its last acknowledgement."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._producer = _producer(target)
        self._handed_over = 0
        self._refused: KafkaError | None = None

    def send(self, event: Event) -> None:
        """Hand an event over; waits for room.

        Raises:
            UnavailableError: TIDE-DEV-011.
        """
        from confluent_kafka import KafkaException

        try:
            while not self._accepts(event):
                self.serve(_WAIT_SECONDS)
        except KafkaException as error:
            raise self._failed(error.args[0]) from error
        self.serve(0)
        self._handed_over += 1

    def serve(self, seconds: float) -> None:
        """Process the broker's answers for this time.

        Raises:
            UnavailableError: TIDE-DEV-011.
        """
        self._producer.poll(seconds)
        if self._refused is not None:
            raise self._failed(self._refused)

    def flush(self) -> None:
        """Return when every event is acknowledged; each ends within the delivery timeout."""
        while len(self._producer):
            self.serve(_WAIT_SECONDS)
        self.serve(0)

    def discard(self) -> None:
        """Drop unsent events, so that none is sent after an error was raised."""
        self._producer.purge()

    def _accepts(self, event: Event) -> bool:
        try:
            self._producer.produce(self._target.topic, event.value, event.key, on_delivery=self._on_delivery)
        except BufferError:
            return False
        return True

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        # Raised later, from `serve`, because an exception here would leave librdkafka's poll without context.
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
                "handed_over": self._handed_over,
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
            # Maximum milliseconds between attempts to reach a broker that restarts. librdkafka's default of
            # 10,000 looks like a stall.
            "reconnect.backoff.max.ms": 1000,
            "compression.type": "lz4",
            "message.timeout.ms": DELIVERY_TIMEOUT_SECONDS * 1000,
            "message.max.bytes": MAX_RECORD_BYTES,
            "queue.buffering.max.kbytes": BUFFER_KILOBYTES,
            **target.connection,
        }
    )
