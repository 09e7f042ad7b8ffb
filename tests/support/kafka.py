"""A real broker as tests want it: topics of their own, filled and read back in one line."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tidemill.dev.broker_config import SASL_PLAINTEXT, SASL_SSL
from tidemill.dev.broker_process import BrokerProcess
from tidemill.dev.topics import create_topic

# Event Hubs' Kafka endpoint wants exactly this user; the password is its connection string.
EVENT_HUBS_USER = "$ConnectionString"

# Shaped like Event Hubs' own, with every character that a JAAS line or a properties file could trip over.
CONNECTION_STRING = (
    'Endpoint=sb://example.servicebus.windows.net/;SharedAccessKeyName=test;SharedAccessKey=b\\s"q=+/#!:ä€'
)

# Seconds for the broker to take or give what a test asks of it.
TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True)
class Record:
    """One record; where it lies is known after reading it back."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    offset: int = -1


class Kafka:
    """The broker of the test run.

    `client_options(protocol)` are librdkafka's; Spark's need the same facts in Java's words:
    `bootstrap_servers`, `listeners`, `authority` (PEM), `EVENT_HUBS_USER` and `CONNECTION_STRING`.
    """

    def __init__(self, broker: BrokerProcess, authority: Path) -> None:
        self.broker = broker
        self.authority = authority
        self._numbers = itertools.count(1)

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    def new_topic(
        self, name: str = "topic", partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """An empty topic that no other test has."""
        topic = f"{name}_{next(self._numbers):04d}"
        create_topic(self.bootstrap_servers, topic, partitions, config)
        return topic

    def topic_with(self, values: Iterable[bytes | None], partitions: int = 1) -> str:
        """A new topic with these values, in this order, spread over the partitions in turn."""
        topic = self.new_topic(partitions=partitions)
        self.send(topic, [Record(value, partition=n % partitions) for n, value in enumerate(values)])
        return topic

    def send(self, topic: str, records: Iterable[Record | bytes | None]) -> None:
        """Send and wait until the broker has all of it."""
        send(self.bootstrap_servers, topic, records)

    def read(self, topic: str) -> list[Record]:
        """All records of the topic now, partition by partition."""
        return read(self.bootstrap_servers, topic)

    def client_options(
        self, protocol: str, password: str = CONNECTION_STRING
    ) -> dict[str, str | int | float | bool]:
        """librdkafka's options for one of the secured listeners."""
        assert protocol in (SASL_PLAINTEXT, SASL_SSL)
        return {
            "bootstrap.servers": self.broker.listeners[protocol],
            "security.protocol": protocol,
            "sasl.mechanism": "PLAIN",
            "sasl.username": EVENT_HUBS_USER,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }


def send(bootstrap_servers: str, topic: str, records: Iterable[Record | bytes | None]) -> None:
    """Send and wait until the broker has all of it; a value alone is a record without a key."""
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
            on_delivery=lambda error, _message: errors.append(error) if error else None,
        )
    assert producer.flush(TIMEOUT_SECONDS) == 0
    assert errors == []


def read(bootstrap_servers: str, topic: str) -> list[Record]:
    """All records of the topic now, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "tests-never-commit",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 20_000_000,
            # Milliseconds that the broker waits for more; here all records are there already.
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        return _read(consumer, topic)
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str) -> list[Record]:
    partitions = consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions
    wanted, starts = 0, []
    for partition in partitions:
        at = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(at, timeout=TIMEOUT_SECONDS)
        starts.append(TopicPartition(topic, partition, low))
        wanted += high - low
    consumer.assign(starts)
    records: list[Record] = []
    while len(records) < wanted:
        messages = consumer.consume(min(10_000, wanted - len(records)), timeout=TIMEOUT_SECONDS)
        assert messages, f"{topic}: {len(records)} of {wanted} records came"
        for message in messages:
            assert message.error() is None, message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            records.append(Record(message.value(), message.key(), partition, offset))
    return sorted(records, key=lambda record: (record.partition, record.offset))
