"""One pipeline with every kind of output, whose real drivers are killed by SIGKILL inside their batches.

The oracle is the input: each record is in the table, in the quarantine or in the table of late ones, and
nowhere twice.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.driver_process import START_TIMEOUT_SECONDS, Drivers, drivers_of
from tests.support.jvm_programs import compile_class
from tests.support.kafka import Kafka, Record
from tests.support.killing_driver import KILLED, killing, killing_driver_command
from tests.support.lake import Lake
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.ledger.read import transaction_version
from tidemill.names import FIRST_GENERATION, LATE_OUTPUT, QUARANTINE_OUTPUT, transaction_id

READINGS, ALERTS = "bronze/readings", "silver/alerts"
START = datetime(2024, 1, 1, tzinfo=UTC)
PER_BATCH = 40

# Steps in their order, and which outputs hold the batch then: quarantine, late rows, two tables, topic.
STEPS = {
    "files_written 1": ".....",
    "quarantined 1": "q....",
    "late_set_aside 1": "ql...",
    "arrow asked": "ql...",
    "arrow landed": "qlr..",
    "committed 1": "qlr..",
    "spark asked": "qlr..",
    "spark landed": "qlra.",
    "committed 2": "qlra.",
    "sent 1": "qlrat",
}

# Topic and partition of the even readings, and of the odd ones.
Places = tuple[tuple[str, int], tuple[str, int]]

# The first batch that has late rows: those before had no watermark to be behind.
FIRST_LATE = 2

TRANSFORM = """
def transform(readings):
    once = readings.dropDuplicates(["id", "at"])
    return once.select("id", "device", "temperature", "at", "kafka_partition", "kafka_offset")
"""
UNION = """
def transform(even, odd):
    both = even.unionByName(odd)
    return both.select("id", "device", "temperature", "at", "kafka_partition", "kafka_offset")
"""
SCHEMA = {
    "id": {"type": "integer"},
    "device": {"type": "string"},
    "temperature": {"type": "number"},
    "at": {"type": "string", "format": "date-time"},
}


@dataclass(frozen=True)
class Reading:
    """One record: each is unique; some cannot be read, some are far behind the others."""

    number: int

    @property
    def is_broken(self) -> bool:
        return self.number % 20 == 7

    @property
    def is_late(self) -> bool:
        """Return True for every tenth event, which is a day behind, more than the watermark."""
        return self.number >= FIRST_LATE * PER_BATCH and self.number % 10 == 5

    @property
    def is_hot(self) -> bool:
        return self.number % 3 == 0

    @property
    def value(self) -> bytes:
        if self.is_broken:
            return b'{"id": %d, ' % self.number
        at = START + timedelta(minutes=self.number) - timedelta(hours=24 if self.is_late else 0)
        temperature = 120.5 if self.is_hot else 20.5
        return json.dumps(
            {"id": self.number, "device": self.device, "temperature": temperature, "at": at.isoformat()}
        ).encode()

    @property
    def device(self) -> str:
        return f"device-{self.number % 5}"


@dataclass
class BatchKills:
    """One pipeline, whose drivers are killed one after the other.

    Args:
        places: Topic and partition of the even readings, and of the odd ones.
        alerts: Topic of the alerts.
        keeps_late: Late rows go aside; else they are rows like others.
    """

    kafka: Kafka
    lake: Lake
    drivers: Drivers
    classes: Path
    places: Places
    alerts: str
    keeps_late: bool
    sent: int = 0

    def feed(self, batches: int) -> None:
        readings = [Reading(self.sent + number) for number in range(batches * PER_BATCH)]
        for parity, (topic, partition) in enumerate(self.places):
            mine = (reading for reading in readings if reading.number % 2 == parity)
            self.kafka.send(topic, [Record(reading.value, partition=partition) for reading in mine])
        self.sent += len(readings)

    def kill_at(self, step: str) -> str:
        """Run a driver that repeats the unfinished batch and is killed in the next; return its last step."""
        before = self._batches().last_planned()
        batch_id = FIRST_LATE if before is None else before + 1
        self.feed(2)
        drivers = replace(
            self.drivers,
            variables=killing(step, batch_id, self.classes),
            command=killing_driver_command,
        )
        driver = drivers.start("readings")
        assert driver.wait(START_TIMEOUT_SECONDS) == -signal.SIGKILL, driver.output[-3000:]
        assert f"{KILLED} {step} IN BATCH {batch_id}" in driver.output
        assert self._batches().last_planned() == batch_id
        return self._standing(batch_id)

    def run_to_the_end(self) -> None:
        driver = self.drivers.start("readings", "incremental")
        assert driver.wait(START_TIMEOUT_SECONDS) == 0, driver.output[-3000:]

    def check(self) -> None:
        """Check that good + quarantined + late = input, with exact tables and a topic at least once."""
        readings = [Reading(number) for number in range(self.sent)]
        rows, alerts = self.lake.rows(READINGS), self.lake.rows(ALERTS)
        rejected = self.lake.quarantined("readings")
        places = Counter((row["partition"], row["offset"]) for row in rejected)
        assert set(places.values()) == {1}
        broken = sorted(reading.value for reading in readings if reading.is_broken)
        assert sorted(row["value"] for row in rejected) == broken

        late = {reading.number for reading in readings if self.keeps_late and reading.is_late}
        ids = Counter(row["id"] for row in rows)
        on_time = (r.number for r in readings if not r.is_broken and r.number not in late)
        assert ids == dict.fromkeys(on_time, 1)
        entries = [commit.entry for commit in self.lake.ledger(READINGS) if commit.entry]
        assert sum(entry.late_rows or 0 for entry in entries) == len(late)
        assert len(ids) + len(rejected) + len(late) == self.sent
        if self.keeps_late:
            behind = self.lake.late("readings")
            assert sorted(row["value"] for row in behind) == sorted(readings[n].value for n in late)
            assert all(row["event_time"] <= row["watermark"] for row in behind)
        told = {e.batch_id: (e.late_rows, e.quarantined_rows) for e in entries}
        others = [commit.entry for commit in self.lake.ledger(ALERTS) if commit.entry]
        assert {e.batch_id: (e.late_rows, e.quarantined_rows) for e in others} == told

        hot = {row["id"]: row for row in rows if row["temperature"] > 100}
        assert Counter(row["id"] for row in alerts) == Counter(hot.keys())
        self._check_topic(hot)

    def _check_topic(self, hot: dict[int, dict[str, Any]]) -> None:
        """Check that the topic has only alerts, each at least once, by device, as a JSON object."""
        records = self.kafka.read(self.alerts)
        documents = [json.loads(record.value or b"") for record in records]
        assert {document["id"] for document in documents} == hot.keys()
        for record, document in zip(records, documents, strict=True):
            row = hot[document["id"]]
            assert record.key == row["device"].encode()
            assert datetime.fromisoformat(document.pop("at")) == row["at"]
            assert document == {name: value for name, value in row.items() if name != "at"}

    def _standing(self, batch_id: int) -> str:
        """Return the outputs that have the batch: tables in their order, then the topic with its alerts."""
        layout = self.drivers.environment.layout
        held = {
            "q": (QUARANTINE_OUTPUT, layout.quarantine("readings")),
            **({"l": (LATE_OUTPUT, layout.late("readings"))} if self.keeps_late else {}),
            "r": (READINGS, layout.table(READINGS)),
            "a": (ALERTS, layout.table(ALERTS)),
        }
        standing = ""
        for letter, (output, path) in held.items():
            app_id = transaction_id("readings", FIRST_GENERATION, output)
            standing += letter if transaction_version(path, app_id) == batch_id else "."
        return standing + ("t" if self._has_sent_of(batch_id) else ".")

    def _has_sent_of(self, batch_id: int) -> bool:
        """Return True if the topic has alerts of a batch; offsets count the readings of a partition."""
        batches = self._batches()
        planned = batches.planned(batch_id)
        assert planned is not None
        ranges = batches.ranges_of(planned).values()
        numbers: set[int] = set()
        for parity, (topic, partition) in enumerate(self.places):
            ((first, last),) = (
                (start[topic][str(partition)], end[topic][str(partition)])
                for start, end in ranges
                if topic in end
            )
            numbers.update(2 * offset + parity for offset in range(first, last))
        records = self.kafka.read(self.alerts)
        return not numbers.isdisjoint(json.loads(record.value or b"")["id"] for record in records)

    def _batches(self) -> CheckpointBatches:
        path = self.drivers.environment.layout.checkpoint("readings", FIRST_GENERATION)
        return CheckpointBatches(self.lake.store, path)


@contextmanager
def batch_kills(
    folder: Path, kafka: Kafka, writers: tuple[str, str] = ("arrow", "spark"), streams: int = 1
) -> Iterator[BatchKills]:
    """Yield the pipeline, and four batches in its topics.

    Args:
        folder: Empty folder.
        kafka: The broker.
        writers: Writers of the two tables.
        streams: One, with two partitions and late rows kept; or two, which are put together.
    """
    # No session of the test run: each driver brings its own.
    lake = Lake(folder / "lake", None, kafka.bootstrap_servers)  # type: ignore[arg-type]
    source, places = one_stream(lake, kafka) if streams == 1 else two_streams(lake, kafka)
    alerts = kafka.new_topic("alerts")
    lake.pipeline(
        "readings",
        **source,
        sinks=[
            {"delta": {"table": READINGS, "writer": writers[0]}},
            {"delta": {"table": ALERTS, "writer": writers[1], "where": "temperature > 100"}},
            {"kafka": {"topic": alerts, "key": "device", "where": "temperature > 100"}},
        ],
        run={"trigger": "0 seconds"},
    )
    classes = compile_class("KillingLogStore", folder / "classes")
    with drivers_of(lake.folder) as drivers:
        story = BatchKills(kafka, lake, drivers, classes, places, alerts, keeps_late=streams == 1)
        story.feed(4)
        yield story


def one_stream(lake: Lake, kafka: Kafka) -> tuple[dict[str, Any], Places]:
    topic = kafka.new_topic("readings", partitions=2)
    source = {
        "source": {"kafka": {"topic": topic, "max_offsets_per_batch": PER_BATCH}},
        "payload": {"json": {"schema": lake.schema("reading.json", SCHEMA)}},
        "event_time": {"column": "at", "watermark": "10 minutes", "late": "table"},
        "transform": lake.transform("readings", TRANSFORM),
    }
    return source, ((topic, 0), (topic, 1))


def two_streams(lake: Lake, kafka: Kafka) -> tuple[dict[str, Any], Places]:
    even, odd = kafka.new_topic("even"), kafka.new_topic("odd")
    schema = lake.schema("reading.json", SCHEMA)
    streams = {
        name: {
            "kafka": {"topic": topic, "max_offsets_per_batch": PER_BATCH // 2},
            "payload": {"json": {"schema": schema}},
        }
        for name, topic in (("even", even), ("odd", odd))
    }
    source = {"sources": streams, "transform": lake.transform("readings", UNION)}
    return source, ((even, 0), (odd, 0))
