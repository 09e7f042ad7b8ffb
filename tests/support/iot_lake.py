"""The repository's IoT pipelines on a topic of the test, and the rows that their tables must have."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from tests.support.kafka import Kafka, Record, send
from tests.support.lake import Lake, LakePipeline
from tidemill.dev.iot_events import Event, IotSettings, iot_events
from tidemill.dev.topics import create_topic

REPOSITORY = Path(__file__).resolve().parents[2]

# Well in the past of any clock: pipelines reject events of the future.
START = datetime(2024, 1, 1, tzinfo=UTC)
WINDOW = timedelta(minutes=5)

# Long after everything else: its own window stays open, all others close.
CLOSING_TIME = START + timedelta(days=10)

# A range around all events but the closing one.
EVERYTHING = ((START - timedelta(days=1)).isoformat(), (START + timedelta(days=1)).isoformat())

Rows = list[dict[str, Any]]
Window = tuple[str, datetime]


class IotLake:
    """A lake with `iot_events_bronze` and `iot_device_windows` as this repository declares them.

    Args:
        folder: Folder of the project.
        spark: Session of the test run; None where driver processes bring their own.
        bootstrap_servers: The broker.
        topic: Read by both; alerts go to `<topic>_alerts`.
        trigger: Trigger of both pipelines. By default there is no pause, because tests wait for each batch.
        source: Further keys of the Kafka source.
    """

    def __init__(
        self,
        folder: Path,
        spark: SparkSession | None,
        bootstrap_servers: str,
        topic: str,
        *,
        trigger: str = "0 seconds",
        **source: Any,
    ) -> None:
        self.lake = Lake(folder, spark, bootstrap_servers)  # type: ignore[arg-type]
        shutil.copy(REPOSITORY / "conf/schemas/iot_event.json", folder / "conf/schemas")
        shutil.copy(
            REPOSITORY / "spark_apps/transforms/iot_device_windows.py", folder / "spark_apps/transforms"
        )
        self._trigger = trigger
        self.bronze = self._declare("iot_events_bronze", topic, source)
        self.windows = self._declare("iot_device_windows", topic, source)

    def _declare(self, name: str, topic: str, source: dict[str, Any]) -> LakePipeline:
        declaration = yaml.safe_load((REPOSITORY / f"conf/pipelines/{name}.yaml").read_text())
        declaration["source"]["kafka"] |= {"topic": topic, **source}
        declaration["run"]["trigger"] = self._trigger
        for sink in declaration["sinks"]:
            if "kafka" in sink:
                sink["kafka"]["topic"] = f"{topic}_alerts"
        return self.lake.pipeline(name, **declaration)

    def bronze_rows(self) -> Rows:
        return self._rows("bronze/iot_events", "kafka_partition", "kafka_offset")

    def window_rows(self) -> Rows:
        return self._rows("silver/iot_device_windows", "device_id", "window_start")

    def alert_rows(self) -> Rows:
        return self._rows("silver/iot_alerts", "device_id", "window_start")

    def rejected(self, pipeline: LakePipeline) -> Rows:
        """Rejected records, without when and by which run."""
        rows = _sorted(self.lake.quarantined(pipeline.name), "partition", "offset")
        told_by_the_run = {"quarantined_at", "batch_id", "run_id"}
        return [{name: row[name] for name in row.keys() - told_by_the_run} for row in rows]

    def counts(self) -> dict[Window, int]:
        """Return events by window, as the table says."""
        rows = self.window_rows()
        counts = {(row["device_id"], row["window_start"]): row["events"] for row in rows}
        assert len(counts) == len(rows), "a window stands twice in the table"
        return counts

    def _rows(self, table: str, *columns: str) -> Rows:
        log = self.lake.root / "tables" / table / "_delta_log"
        return _sorted(self.lake.rows(table), *columns) if list(log.glob("*.json")) else []


def iot_topic(kafka: Kafka, partitions: int = 1) -> str:
    """Return a new topic, and the one of its alerts."""
    topic = kafka.new_topic("iot", partitions)
    create_topic(kafka.bootstrap_servers, f"{topic}_alerts", 1)
    return topic


def take(settings: IotSettings, count: int) -> list[Event]:
    """Return the first events of these settings."""
    return list(itertools.islice(iot_events(settings), count))


def closing_event() -> Event:
    """Return one reading long after all others."""
    return take(IotSettings(start=CLOSING_TIME, seed=99), 1)[0]


def send_events(bootstrap_servers: str, topic: str, events: Iterable[Event]) -> None:
    """Send as the generator's own producer does: keyed by device."""
    send(bootstrap_servers, topic, [Record(event.value, event.key) for event in events])


def accepted(events: Iterable[Event]) -> list[Event]:
    """Return events that fit the schema, repeated ones included."""
    return [event for event in events if event.kind != "broken"]


def distinct(events: Iterable[Event]) -> list[Event]:
    """Return each reading once."""
    return list({event.event_id: event for event in accepted(events)}.values())


def counts_by_window(events: Iterable[Event]) -> dict[Window, int]:
    """Return the number of readings per device and window, by a batch computation over the input."""
    counts: dict[Window, int] = {}
    for event in distinct(events):
        window = (event.key.decode(), window_start(event.event_time))
        counts[window] = counts.get(window, 0) + 1
    return counts


def assert_bronze_holds(iot: IotLake, events: Iterable[Event]) -> None:
    """Check that each accepted record is in the table as often as it was sent, and no offset is twice."""
    rows = iot.bronze_rows()
    assert len({(row["kafka_partition"], row["kafka_offset"]) for row in rows}) == len(rows)
    assert Counter(row["event_id"] for row in rows) == Counter(event.event_id for event in accepted(events))


def window_start(moment: datetime) -> datetime:
    """Start of the 5-minute window that a moment lies in."""
    return moment - (moment - START) % WINDOW


def _sorted(rows: Rows, *columns: str) -> Rows:
    return sorted(rows, key=lambda row: tuple(row[column] for column in columns))
