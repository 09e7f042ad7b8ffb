"""A real broker for tests: separate topics, filled and read back in one line."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tidemill.dev.broker_process import BrokerProcess
from tidemill.dev.topics import create_topic
from tidemill.errors import UnavailableError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

# Maximum seconds for the broker to accept or return records.
TIMEOUT_SECONDS = 20.0

# Shared by all topics of this process.
_TOPIC_NUMBERS = itertools.count(1)


Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """One record; its partition and offset are known after it was read back."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    offset: int = -1
    headers: Headers = ()


class Broker:
    """The broker of a test run.

    Args:
        process: The running broker.
    """

    def __init__(self, process: BrokerProcess) -> None:
        self.broker = process

    @property
    def bootstrap_servers(self) -> str:
        """Return `host:port`, without a login."""
        return self.broker.bootstrap_servers

    def new_topic(
        self, name: str = "topic", partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Create an empty topic for one test; return its name."""
        topic = f"{name}_{next(_TOPIC_NUMBERS):04d}"
        create_topic(self.bootstrap_servers, topic, partitions, config)
        return topic

    def topic_with(self, values: Iterable[bytes | None], partitions: int = 1) -> str:
        """Create a topic with these values, in this order, spread over the partitions in turn."""
        topic = self.new_topic(partitions=partitions)
        self.send(topic, [Record(value, partition=n % partitions) for n, value in enumerate(values)])
        return topic

    def send(self, topic: str, records: Iterable[Record | bytes | None]) -> None:
        """Send records, and wait until the broker has all of them."""
        send(self.bootstrap_servers, topic, records)

    def read(self, topic: str) -> list[Record]:
        """Return all current records of the topic, by partition."""
        return read(self.bootstrap_servers, topic)


def send(bootstrap_servers: str, topic: str, records: Iterable[Record | bytes | None]) -> None:
    """Send records and wait until the broker has all of them; a plain value is a record without a key.

    Raises:
        UnavailableError: TIDE-TEST-007, if the broker did not accept all.
    """
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "message.max.bytes": 20_000_000}
    )
    errors: list[object] = []
    for item in records:
        record = item if isinstance(item, Record) else Record(item)
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            headers=list(record.headers),
            on_delivery=lambda error, _message: errors.append(error) if error else None,
        )
    waiting = producer.flush(TIMEOUT_SECONDS)
    if waiting or errors:
        raise _silent(topic, errors[0] if errors else f"{waiting} records are not delivered")


def read(bootstrap_servers: str, topic: str) -> list[Record]:
    """Return all current records of the topic, by partition.

    Raises:
        UnavailableError: TIDE-TEST-007, if the broker did not return all.
    """
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "tests-never-commit",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 20_000_000,
            # Milliseconds that the broker waits for more records; here all of them already exist.
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        return _read(consumer, topic)
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str) -> list[Record]:
    from confluent_kafka import TopicPartition

    found = consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
    if found.error is not None:
        raise _silent(topic, found.error)
    wanted, starts = 0, []
    for partition in found.partitions:
        at = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(at, timeout=TIMEOUT_SECONDS)
        starts.append(TopicPartition(topic, partition, low))
        wanted += high - low
    consumer.assign(starts)
    records: list[Record] = []
    while len(records) < wanted:
        messages = consumer.consume(min(10_000, wanted - len(records)), timeout=TIMEOUT_SECONDS)
        if not messages:
            raise _silent(topic, f"{len(records)} of {wanted} records came")
        for message in messages:
            partition, offset = message.partition(), message.offset()
            if message.error() is not None or partition is None or offset is None:
                raise _silent(topic, message.error())
            headers = cast("Headers", tuple(message.headers() or ()))
            records.append(Record(message.value(), message.key(), partition, offset, headers))
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _silent(topic: str, reason: object) -> UnavailableError:
    return UnavailableError(
        "TIDE-TEST-007",
        "The broker of the tests does not take or give all records.",
        facts={"topic": topic, "reason": reason, "waited_seconds": TIMEOUT_SECONDS},
        fix="does the topic exist, and is the broker still running? See broker.log in its folder",
    )
