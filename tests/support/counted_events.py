"""A pipeline on a separate topic, and all records that were sent to it. Each must be in the result once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.kafka import Kafka, send
from tests.support.lake import Lake
from tidemill.sources.kafka_clients import KafkaClient
from tidemill.sources.offsets import KafkaOffsets

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {"id": {"type": "string"}, "at": {"type": "string", "format": "date-time"}}

# One of this number of records is not JSON.
BROKEN_EVERY = 10

# Number of records per step, and seconds between two steps.
FLOW, FLOW_SECONDS = 4, 0.25


class CountedEvents:
    """One pipeline, its topic, and the sent records: one per minute of event time.

    Args:
        lake: Lake of the project.
        kafka: The broker.
        name: The pipeline, and its table in `bronze`.
        batch: Most records of a batch.
        keys: Keys of the declaration.
    """

    def __init__(self, lake: Lake, kafka: Kafka, name: str, batch: int = 50, **keys: Any) -> None:
        self.name = name
        self.table = f"bronze/{name}"
        self.topic = kafka.new_topic(name, 2)
        self.good: list[str] = []
        self.broken: list[bytes] = []
        # Number of broken records before a fork. They are only in the quarantine of the original.
        self.broken_before = 0
        self._lake = lake
        self._servers = kafka.bootstrap_servers
        self._next = 0
        lake.schema("event.json", SCHEMA)
        self._keys = {
            "source": {"kafka": {"topic": self.topic, "max_offsets_per_batch": batch}},
            "payload": {"json": {"schema": "event.json", "on_invalid": "quarantine"}},
            "event_time": {"column": "at", "watermark": "1 minute"},
            "sinks": [{"delta": {"table": self.table}}],
            **keys,
        }
        self.pipeline = lake.pipeline(name, **self._keys)

    def forked(self, name: str) -> CountedEvents:
        """Return the same records for a fork with a separate table."""
        fork = copy(self)
        fork.name, fork.table = name, f"bronze/{name}"
        fork._keys = {**self._keys, "sinks": [{"delta": {"table": fork.table}}]}
        fork.pipeline = self._lake.pipeline(name, **fork._keys)
        return fork

    def declare(self, **keys: Any) -> None:
        """Write the pipeline's file again, with other keys."""
        self._keys |= keys
        self.pipeline = self._lake.pipeline(self.name, **self._keys)

    def send(self, count: int) -> None:
        """Send the next records."""
        values = []
        for number in range(self._next, self._next + count):
            if number % BROKEN_EVERY == BROKEN_EVERY - 1:
                values.append(f"broken {self.name} {number}".encode())
                self.broken.append(values[-1])
            else:
                self.good.append(f"{self.name}-{number}")
                values.append(self.value_of(self.good[-1]))
        self._next += count
        send(self._servers, self.topic, values)

    def send_again(self, count: int) -> None:
        """Send the newest good records again, for a pipeline that keeps one of each."""
        send(self._servers, self.topic, [self.value_of(record) for record in self.good[-count:]])

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """More and more of them, during a `with` block."""
        over = threading.Event()

        def flow() -> None:
            while not over.wait(FLOW_SECONDS):
                self.send(FLOW)

        thread = threading.Thread(target=flow)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def value_of(self, record: str) -> bytes:
        """Return the value of a good record."""
        number = int(record.rpartition("-")[2])
        return json.dumps({"id": record, "at": self.at(number)}).encode()

    def end_offsets(self) -> str:
        """Return the end of the topic, as a form wants it."""
        with KafkaOffsets(KafkaClient(self._servers)) as offsets:
            _, end = offsets.ranges([self.topic])
        return json.dumps(end)

    @staticmethod
    def at(number: int) -> str:
        """Event time of a record."""
        return (START + timedelta(minutes=number)).isoformat()

    def rows(self) -> Counter[str]:
        """Return ids in the table."""
        log = self._lake.root / "tables" / self.table / "_delta_log"
        return Counter(row["id"] for row in self._lake.rows(self.table)) if log.exists() else Counter()

    def quarantined(self) -> Counter[bytes]:
        return Counter(row["value"] for row in self._lake.quarantined(self.name))

    def are_all_there(self) -> bool:
        """Return True if as many records are out as were sent; `assert_exactly_once` compares them."""
        broken = len(self.broken) - self.broken_before
        return self.rows().total() + self.quarantined().total() >= len(self.good) + broken

    def assert_exactly_once(self) -> None:
        """Check that each record is in the table or in the quarantine, and none is twice."""
        assert self.rows() == Counter(self.good)
        assert self.quarantined() == Counter(self.broken[self.broken_before :])
