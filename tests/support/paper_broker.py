"""A Kafka broker that is a table of numbers, which its clients get without a server.

It replaces confluent-kafka's clients. `tests/kafka` tests the real clients with a real broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, TopicPartition

CLIENTS = (
    ("tidemill.sources.offsets.Consumer", "consumer"),
    ("tidemill.sources.topic_facts.AdminClient", "admin"),
    ("tidemill.sources.topic_retention.AdminClient", "admin"),
)


@dataclass
class PaperBroker:
    """Facts of the broker.

    Args:
        topics: First offset and end of each partition, by topic.
        ids: Topic ids.
        retention_ms: Retention of every topic.
        cluster: Cluster id.
        times: Arrival times of a partition's records from its first offset on; without them, before any time.
    """

    topics: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    retention_ms: int = 604_800_000
    cluster: str | None = None
    times: dict[str, dict[int, list[datetime]]] = field(default_factory=dict)

    def stand_in(self, patch: pytest.MonkeyPatch) -> PaperBroker:
        """Answer every client of this process from now on."""
        made = {"consumer": lambda _: _Consumer(self), "admin": lambda _: _Admin(self)}
        for name, kind in CLIENTS:
            patch.setattr(name, made[kind])
        return self


@dataclass
class _Consumer:
    broker: PaperBroker

    def list_topics(self, timeout: float) -> Any:
        known = {
            name: SimpleNamespace(error=None, partitions=dict.fromkeys(partitions))
            for name, partitions in self.broker.topics.items()
        }
        return SimpleNamespace(topics=known, cluster_id=self.broker.cluster)

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        return self.broker.topics[place.topic][place.partition]

    def offsets_for_times(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the first record that is not older than a time in milliseconds, or the end without one."""
        return [TopicPartition(place.topic, place.partition, self._since(place)) for place in places]

    def _since(self, place: TopicPartition) -> int:
        first, _ = self.broker.topics[place.topic][place.partition]
        times = self.broker.times.get(place.topic, {}).get(place.partition, [])
        since = (n for n, came in enumerate(times, first) if came.timestamp() * 1000 >= place.offset)
        return next(since, OFFSET_END)

    def poll(self, timeout: float) -> None:
        return None

    def close(self) -> None:
        return None


@dataclass
class _Admin:
    broker: PaperBroker

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        names: Iterable[str] = self.broker.topics
        return {name: _answer(SimpleNamespace(topic_id=self.broker.ids.get(name, name))) for name in names}

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Future[Any]]:
        told = {"retention.ms": self.broker.retention_ms, "cleanup.policy": "delete"}
        values = {name: SimpleNamespace(value=str(value)) for name, value in told.items()}
        return {resource: _answer(values) for resource in resources}


def _answer(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future
