"""Kafka positions: topics and partitions, their beginnings and ends, and offsets by time.

Positions are `{topic: {partition: offset}}`, as Spark writes them; an end is exclusive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition

from tidemill.errors import AbsentError, SpecError, UnavailableError
from tidemill.ledger.entry import Positions
from tidemill.sources.kafka_clients import KafkaClient

# Maximum time for one answer, in seconds. Longer than a leader election of a healthy cluster, but shorter
# than the patience of a user at a prompt.
ANSWER_TIMEOUT_SECONDS = 10.0

_FIX = "correct the secret that the environment or the source names"
_FIX_OF_TOKENS = (
    "give the token's identity the roles Azure Event Hubs Data Receiver and, to send, Data Sender; of a "
    "token file, see that its token is for this namespace"
)


class KafkaOffsets:
    """Reads topic metadata and offsets; commits nothing and joins no group."""

    def __init__(self, client: KafkaClient) -> None:
        self._servers = client.bootstrap_servers
        self._by_token = client.login is not None
        self._errors: dict[int, str] = {}
        config: dict[str, Any] = {
            **client.librdkafka_config(),
            # librdkafka requires a name; without subscribe and commit, no such group is created.
            "group.id": "tidemill-offsets",
            "enable.auto.commit": False,
            # Decides the end of a partition: if transactions are open, it is where the first one begins.
            "isolation.level": client.isolation or "read_committed",
            # librdkafka prints to stderr by default; problems are raised below instead.
            "log_level": 0,
            "error_cb": lambda error: self._errors.setdefault(error.code(), error.str()),
        }
        self._consumer = Consumer(config)

    def __enter__(self) -> KafkaOffsets:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Return the partitions of each topic.

        Raises:
            UnavailableError: TIDE-SRC-001, if no broker answers.
            AbsentError: TIDE-SRC-002, if a topic is missing.
        """
        known = self._known()
        wanted = list(topics)
        missing = [topic for topic in wanted if topic not in known or known[topic].error is not None]
        if missing:
            raise AbsentError(
                "TIDE-SRC-002",
                "A topic does not exist.",
                facts={
                    "topic": ", ".join(missing),
                    "bootstrap_servers": self._servers,
                    "known": _named(known),
                },
                fix="create the topic, or correct its name in the pipeline file",
                runbook="source-unavailable",
            )
        return {topic: sorted(known[topic].partitions) for topic in wanted}

    def cluster(self) -> str | None:
        """Return the id of the cluster; None if the broker does not report it."""
        with self._answering():
            return self._consumer.list_topics(timeout=ANSWER_TIMEOUT_SECONDS).cluster_id or None

    def matching(self, topics: Iterable[str] | re.Pattern[str]) -> list[str]:
        """Return the given topics, or all topics whose whole name matches a pattern."""
        if not isinstance(topics, re.Pattern):
            return list(topics)
        return sorted(name for name in self._known() if topics.fullmatch(name))

    def found(self, topics: Iterable[str] | re.Pattern[str]) -> list[str]:
        """Return the same, and require at least one match of a pattern.

        Raises:
            AbsentError: TIDE-SRC-002, if no topic matches, because a query would silently read nothing.
        """
        matching = self.matching(topics)
        if isinstance(topics, re.Pattern) and not matching:
            raise AbsentError(
                "TIDE-SRC-002",
                "No topic matches the pattern.",
                facts={
                    "pattern": topics.pattern,
                    "bootstrap_servers": self._servers,
                    "known": _named(self._known()),
                },
                fix="create a topic, or correct the pattern in the pipeline file: a regular expression that "
                "matches whole names",
                runbook="source-unavailable",
            )
        return matching

    def ends(self, topics: Iterable[str]) -> Positions:
        """Return the first offset after the last record of each partition."""
        return self.ranges(topics)[1]

    def beginnings(self, topics: Iterable[str]) -> Positions:
        """Return the offset of the oldest record that the broker still has, for each partition."""
        return self.ranges(topics)[0]

    def ranges(self, topics: Iterable[str]) -> tuple[Positions, Positions]:
        """Return beginnings and ends, with one request per partition."""
        oldest: Positions = {}
        ends: Positions = {}
        for topic, numbers in self.partitions(topics).items():
            found = {str(number): self._range(topic, number) for number in numbers}
            oldest[topic] = {partition: first for partition, (first, _) in found.items()}
            ends[topic] = {partition: end for partition, (_, end) in found.items()}
        return oldest, ends

    def at_time(self, topics: Iterable[str], moment: datetime) -> Positions:
        """Return the first offset of each partition whose timestamp is not before `moment`; else its end."""
        return self.from_ends(self.ends(topics), moment)

    def from_ends(self, ends: Positions, moment: datetime) -> Positions:
        """Return the same for partitions whose ends are known."""
        milliseconds = int(moment.timestamp() * 1000)
        wanted = [TopicPartition(t, int(p), milliseconds) for t, ps in ends.items() for p in ps]
        with self._answering():
            found = self._consumer.offsets_for_times(wanted, timeout=ANSWER_TIMEOUT_SECONDS)
        positions: Positions = {topic: dict(partitions) for topic, partitions in ends.items()}
        for partition in found:
            if partition.offset not in (OFFSET_END, -1001):
                positions[partition.topic][str(partition.partition)] = partition.offset
        return positions

    def _known(self) -> dict[str, Any]:
        with self._answering():
            topics: dict[str, Any] = self._consumer.list_topics(timeout=ANSWER_TIMEOUT_SECONDS).topics
        return topics

    def _range(self, topic: str, number: int) -> tuple[int, int]:
        place = TopicPartition(topic, number)
        with self._answering():
            found: tuple[int, int] = self._consumer.get_watermark_offsets(
                place, timeout=ANSWER_TIMEOUT_SECONDS
            )
        return found

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Convert errors of the client.

        Raises:
            UnavailableError: TIDE-SRC-001, if no broker answers.
            SpecError: TIDE-SRC-003, if one answers that the credentials are wrong.
        """
        try:
            yield
        except KafkaException as error:
            # The call only reports a timeout; librdkafka passes the reason to its callback at the next poll.
            self._consumer.poll(0)
            refused = self._errors.get(KafkaError._AUTHENTICATION)
            if refused is not None:
                raise SpecError(
                    "TIDE-SRC-003",
                    "The broker refuses the credentials.",
                    facts={"bootstrap_servers": self._servers, "reason": refused},
                    fix=_FIX_OF_TOKENS if self._by_token else _FIX,
                    runbook="source-unavailable",
                ) from error
            raise UnavailableError(
                "TIDE-SRC-001",
                "No Kafka broker answers.",
                facts={"bootstrap_servers": self._servers, "reason": error.args[0].str()},
                fix="start the broker (on a laptop: tidemill dev broker), "
                "or correct the environment's `kafka`",
                runbook="source-unavailable",
            ) from error


def _named(known: Iterable[str]) -> str:
    """Return the names of some topics, without internal ones."""
    return ", ".join(sorted(topic for topic in known if not topic.startswith("__"))[:20]) or "none"


def records_between(start: Positions, end: Positions) -> int:
    """Return the number of offsets between two positions; a new partition in `end` counts from 0."""
    return sum(
        max(0, offset - start.get(topic, {}).get(partition, 0))
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    )
