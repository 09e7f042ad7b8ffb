"""Read records between two offsets of one partition in a task, without a JVM: each once, or an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from tidemill.errors import UnavailableError

# Maximum time without an answer from a broker, in seconds, before the task fails and is tried again.
SILENCE_SECONDS = 60.0


@dataclass(frozen=True)
class BrokerRange:
    """Records of one partition.

    Args:
        topic: The topic.
        partition: Number of the partition.
        first: First offset.
        end: End, exclusive. Offsets in between may be missing, because of compaction or transaction markers.
    """

    topic: str
    partition: int
    first: int
    end: int


def broker_rows(config: Mapping[str, str], wanted: BrokerRange) -> Iterator[dict[str, Any]]:
    """Yield the records in the columns of a source.

    Args:
        config: Configuration of a client, with its secrets.
        wanted: The records.

    Raises:
        UnavailableError: TIDE-SRC-010, if the broker does not return them, or no longer has them.
    """
    consumer = Consumer(
        {
            **config,
            # Without subscribe and commit, no group of this name is created.
            "group.id": "tidemill-past",
            "enable.auto.commit": False,
            # Never continue with the oldest or newest record instead, which would skip missing records.
            "auto.offset.reset": "error",
            # Reports the end of a partition whose last offsets are not records.
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.first)])
        for message in _until(consumer, wanted):
            yield _row(message)
    finally:
        consumer.close()


def _until(consumer: Consumer, wanted: BrokerRange) -> Iterator[Message]:
    """Yield messages up to the end, which may be after the last record; then the partition's end stops it."""
    while True:
        # Do not use `consume`, which waits for the requested number of messages.
        message = consumer.poll(SILENCE_SECONDS)
        if message is None:
            raise _not_given(wanted, "no answer")
        error, offset = message.error(), message.offset() or 0
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise _not_given(wanted, error.str())
        if error is not None and offset < wanted.end:
            raise _not_given(wanted, f"it ends at {offset}")
        if offset >= wanted.end:
            return
        yield message
        if offset + 1 == wanted.end:
            return


def _row(message: Message) -> dict[str, Any]:
    # A consumer returns pairs.
    headers: Any = message.headers()
    return {
        "kafka_key": message.key(),
        "kafka_value": message.value(),
        "kafka_topic": message.topic(),
        "kafka_partition": message.partition(),
        "kafka_offset": message.offset(),
        # Use microseconds, because a producer may send a time that Python's datetime cannot hold.
        "kafka_timestamp": message.timestamp()[1] * 1000,
        "kafka_headers": [{"key": name, "value": value} for name, value in headers] if headers else None,
    }


def _not_given(wanted: BrokerRange, reason: str) -> UnavailableError:
    return UnavailableError(
        "TIDE-SRC-010",
        "The broker does not give the records of the past from which state is computed.",
        facts={"partition": f"{wanted.topic}-{wanted.partition}", "first": wanted.first, "reason": reason},
        fix="let the broker answer; if the records are gone, plan the reset again",
        runbook="source-unavailable",
    )
