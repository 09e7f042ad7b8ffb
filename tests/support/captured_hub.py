"""An event hub with Capture: the broker's SASL_SSL listener, an archive on disk, and a hub that forgets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.capture_files import CaptureFolder, Event
from tests.support.kafka import TIMEOUT_SECONDS, Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tidemill.backfill.live_side import LiveSide
from tidemill.dev.broker_config import SASL_SSL

NAMESPACE = "plant-north"
START = datetime(2026, 1, 1, tzinfo=UTC)
# Events of each window of ten minutes.
COUNTS = """
from pyspark.sql import functions as F

def transform(readings):
    counts = readings.groupBy(F.window("at", "10 minutes")).agg(F.count("*").alias("events"))
    return counts.select(F.col("window.start").alias("window_start"), "events")
"""
SCHEMA = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}


class CapturedHub:
    """A hub of two partitions whose events are numbered, one a minute.

    Args:
        lake: Lake with the pipelines and the archive.
        kafka: The broker.
    """

    def __init__(self, lake: Lake, kafka: Kafka) -> None:
        self.lake, self._kafka = lake, kafka
        lake.schema("reading.json", SCHEMA)
        self.hub = kafka.new_topic("readings", 2)
        self.archive = CaptureFolder(lake.root / "captured", NAMESPACE, self.hub)
        self._sent = 0

    def send(self, count: int) -> None:
        """Send the next events, alternately to the two partitions."""
        numbers = range(self._sent, self._sent + count)
        self._sent += count
        self._kafka.send(
            self.hub,
            [Record(json.dumps({"id": n, "at": at(n)}).encode(), str(n).encode(), n % 2) for n in numbers],
        )

    def put(self, records: Iterable[Record]) -> None:
        """Put other events in the place of the numbered ones."""
        self._kafka.send(self.hub, records)

    def capture(self, partition: int, first: int, end: int) -> Path:
        """Write what the hub has of these numbers as one file."""
        events = [event for event in self._events(partition) if first <= event.number < end]
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=first)
        return self.archive.write(partition, moment, events)

    def forget(self, partition: int, before: int) -> None:
        """Delete records, as retention does."""
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap_servers})
        place = TopicPartition(self.hub, partition, before)
        admin.delete_records([place])[place].result(TIMEOUT_SECONDS)

    def pipeline(self, name: str = "readings", **keys: Any) -> LakePipeline:
        source = {
            "namespace": NAMESPACE,
            "hub": self.hub,
            "auth": {"connection_string": "hub-connection"},
            "endpoint": self._kafka.broker.listeners[SASL_SSL],
            "ca_file": str(self._kafka.authority),
            "capture": {"path": "captured"},
        }
        declaration = {
            "source": {"eventhubs": source},
            "payload": {"json": {"schema": "reading.json"}},
            "event_time": {"column": "at", "watermark": "1 minute"},
            "sinks": [{"delta": {"table": f"silver/{name}"}}],
            **keys,
        }
        return self.lake.pipeline(name, **declaration)

    def _events(self, partition: int) -> list[Event]:
        consumer = Consumer(
            {"bootstrap.servers": self._kafka.bootstrap_servers, "group.id": "tests", "fetch.wait.max.ms": 10}
        )
        place = TopicPartition(self.hub, partition)
        low, high = consumer.get_watermark_offsets(place, timeout=TIMEOUT_SECONDS)
        place.offset = low
        consumer.assign([place])
        found: list[Event] = []
        while len(found) < high - low:
            for message in consumer.consume(high - low - len(found), timeout=TIMEOUT_SECONDS):
                enqueued = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
                key = (message.key() or b"").decode()
                found.append(Event(message.offset() or 0, enqueued, message.value(), key))
        consumer.close()
        return found


@dataclass
class Archiving:
    """Capture and retention at work: files that overlap, and a hub that forgets.

    Args:
        hub: The hub.
        captured: End of the archive, by partition.
    """

    hub: CapturedHub
    captured: Counter[int] = field(default_factory=Counter)

    def capture(self, partition: int, end: int) -> None:
        """Write a file with what came since the last one, and three events more."""
        self.hub.capture(partition, max(0, self.captured[partition] - 3), end)
        self.captured[partition] = end

    def forget(self, live: LiveSide) -> None:
        """Delete events, as retention does: the hub keeps five of those that were archived and read."""
        for number, read in (live.offsets or {}).get(self.hub.hub, {}).items():
            before = min(read, self.captured[int(number)]) - 5
            if before > 0:
                self.hub.forget(int(number), before)


def at(number: int) -> str:
    return (START + timedelta(minutes=number)).isoformat()
