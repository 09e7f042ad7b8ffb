"""Events into a Kafka topic, each exactly once.

The producer is idempotent and waits for all replicas, so that an event that was reported as sent is in the
topic once, whatever the connection did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidemill.errors import UnavailableError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from tidemill.dev.iot_events import Event

# Seconds that an event may wait for the broker, over all retries; then the run fails. Longer than a restart
# of the embedded broker (5 s), shorter than a person waits.
DELIVERY_TIMEOUT_SECONDS = 60

# KB of events that wait for the broker; above that we wait too. Holds a few of the largest records that
# tests send (10 MB) and stays far below the memory of any machine that runs Spark.
BUFFER_KILOBYTES = 64 * 1024

# Bytes of the largest record that the client accepts. The broker's own limit (1 MB unless the topic says
# more) decides, and its refusal is what a caller wants to see.
MAX_RECORD_BYTES = 20_000_000

# Seconds of one wait for room in the buffer.
_WAIT_SECONDS = 0.1


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
        """Take the broker's answers for so long.

        Raises:
            UnavailableError: TIDE-DEV-011.
        """
        self._producer.poll(seconds)
        if self._refused is not None:
            raise self._failed(self._refused)

    def flush(self) -> None:
        """Return when every event is acknowledged; each ends by itself within the delivery timeout."""
        while len(self._producer):
            self.serve(_WAIT_SECONDS)
        self.serve(0)

    def discard(self) -> None:
        """Forget what is not yet sent, so that nothing goes out after an error was raised."""
        self._producer.purge()

    def _accepts(self, event: Event) -> bool:
        try:
            self._producer.produce(self._target.topic, event.value, event.key, on_delivery=self._on_delivery)
        except BufferError:
            return False
        return True

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        # Raised later, from `serve`: an exception here would come out of librdkafka's poll without context.
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
