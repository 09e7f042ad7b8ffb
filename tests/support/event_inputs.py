"""Inputs of a backfill with the same events: a topic, a bronze table, a hub's archive, files."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from tests.support.captured_hub import Archiving, CapturedHub
from tests.support.iot_lake import REPOSITORY
from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tidemill.backfill.live_side import LiveSide
from tidemill.dev.iot_events import Event, IotSettings, iot_events

PAYLOAD = {"json": {"schema": "iot_event.json", "keep_raw": True}}
COLUMNS = "event_id string, device_id string, temperature double, humidity double, timestamp timestamp"

# Content of a file for a broken event: one line that is not a row. Other events are rows.
LINES = ("truncated_json", "wrong_type", "plain_text")

# Seconds between two bursts of events, and the most events of one: 16 a second.
BURST_SECONDS = 0.5
LARGEST_BURST = 15

# After this number, one event at a time is sent, so that a slow machine does not make a story longer.
ENOUGH_EVENTS = 1_000

# Bursts from one time to the next that an input is brought up to date.
BURSTS_UNTIL_KEPT_UP = 4


class EventInput(Protocol):
    """An input of pipelines.

    Args:
        lake: Lake of the inputs.
        has_places: True if records name their position, so that each row can come from one record.
    """

    lake: Lake
    has_places: bool

    def send(self, events: Sequence[Event]) -> list[Event]:
        """Take the next events; returns those that it can have."""

    def keep_up(self) -> None:
        """Do the other work of the input while its events arrive."""

    def forget(self, live: LiveSide) -> None:
        """Delete the records that were read, if an archive has them."""

    def pipeline(self, name: str, **keys: Any) -> LakePipeline:
        """Return a pipeline that reads it."""

    def control(self, name: str, **keys: Any) -> LakePipeline:
        """Return a pipeline that reads all events from the first one."""

    def rejected(self, pipeline: LakePipeline) -> list[dict[str, Any]]:
        """Return the records that were rejected on the way to its tables."""


class TopicInput:
    """A topic, which keeps everything."""

    has_places = True

    def __init__(self, lake: Lake, kafka: Kafka, chance: random.Random) -> None:
        self.lake, self._kafka = lake, kafka
        self._partitions = chance.randint(1, 4)
        self.topic = kafka.new_topic("events", self._partitions)

    def send(self, events: Sequence[Event]) -> list[Event]:
        self._kafka.send(self.topic, [record(event, self._partitions) for event in events])
        return list(events)

    def keep_up(self) -> None:
        pass

    def forget(self, live: LiveSide) -> None:
        pass

    def pipeline(self, name: str, **keys: Any) -> LakePipeline:
        return self.lake.pipeline(name, source={"kafka": {"topic": self.topic}}, payload=PAYLOAD, **keys)

    control = pipeline

    def rejected(self, pipeline: LakePipeline) -> list[dict[str, Any]]:
        return self.lake.quarantined(pipeline.name)


class BronzeInput:
    """A table that the test's session fills from a topic, batch by batch."""

    has_places = False

    def __init__(self, lake: Lake, kafka: Kafka, chance: random.Random) -> None:
        self.lake, self._topic = lake, TopicInput(lake, kafka, chance)
        self._bronze = self._topic.pipeline(
            "bronze", sinks=[{"delta": {"table": "bronze/events"}}], run={"mode": "incremental"}
        )

    def send(self, events: Sequence[Event]) -> list[Event]:
        return self._topic.send(events)

    def keep_up(self) -> None:
        self._bronze.run_incremental()

    def forget(self, live: LiveSide) -> None:
        pass

    def pipeline(self, name: str, **keys: Any) -> LakePipeline:
        # The table may not be there yet: its pipeline has made it then.
        return self.lake.pipeline(name, source={"delta": {"table": "bronze/events"}}, **keys)

    control = pipeline

    def rejected(self, pipeline: LakePipeline) -> list[dict[str, Any]]:
        return [*self.lake.quarantined("bronze"), *self.lake.quarantined(pipeline.name)]


class ArchiveInput:
    """A hub that forgets what Capture has written, and a topic with the same records that forgets nothing."""

    has_places = True

    def __init__(self, lake: Lake, kafka: Kafka, chance: random.Random) -> None:
        self.lake, self._kafka = lake, kafka
        self._hub = CapturedHub(lake, kafka)
        self._archiving = Archiving(self._hub)
        self._kept = kafka.new_topic("kept", 2)
        self._chance = random.Random(chance.random())
        self._sent: Counter[int] = Counter()

    def send(self, events: Sequence[Event]) -> list[Event]:
        records = [record(event, 2) for event in events]
        self._hub.put(records)
        self._kafka.send(self._kept, records)
        self._sent.update(each.partition for each in records)
        return list(events)

    def keep_up(self) -> None:
        partition = self._chance.randrange(2)
        if self._sent[partition] > self._archiving.captured[partition]:
            self._archiving.capture(partition, self._sent[partition])

    def forget(self, live: LiveSide) -> None:
        self._archiving.forget(live)

    def pipeline(self, name: str, **keys: Any) -> LakePipeline:
        return self._hub.pipeline(name, payload=PAYLOAD, **keys)

    def control(self, name: str, **keys: Any) -> LakePipeline:
        return self.lake.pipeline(name, source={"kafka": {"topic": self._kept}}, payload=PAYLOAD, **keys)

    def rejected(self, pipeline: LakePipeline) -> list[dict[str, Any]]:
        return self.lake.quarantined(pipeline.name)


class FilesInput:
    """A folder in which files of events land."""

    has_places = False

    def __init__(self, lake: Lake, kafka: Kafka, chance: random.Random) -> None:
        self.lake = lake
        self._landed = 0

    def send(self, events: Sequence[Event]) -> list[Event]:
        lines = [event for event in events if event.kind != "broken" or event.form in LINES]
        text = "".join(f"{(event.value or b'').decode()}\n" for event in lines)
        self.lake.land(f"landing/events/{self._landed:05}.json", text)
        self._landed += 1
        return lines

    def keep_up(self) -> None:
        pass

    def forget(self, live: LiveSide) -> None:
        pass

    def pipeline(self, name: str, **keys: Any) -> LakePipeline:
        files = {"path": "landing/events", "format": "json", "schema": COLUMNS}
        return self.lake.pipeline(name, source={"files": files}, **keys)

    control = pipeline

    def rejected(self, pipeline: LakePipeline) -> list[dict[str, Any]]:
        return self.lake.quarantined(pipeline.name)


# Classes of inputs by name. An archive is of one of two kinds.
INPUTS: dict[str, tuple[type[EventInput], ...]] = {
    "broker": (TopicInput,),
    "bronze": (BronzeInput,),
    "archive": (ArchiveInput, FilesInput),
}


def new_input(
    name: str, folder: Path, spark: SparkSession, kafka: Kafka, chance: random.Random
) -> EventInput:
    """Return an empty input in a separate project."""
    lake = Lake(folder, spark, kafka.bootstrap_servers)
    shutil.copy(REPOSITORY / "conf/schemas/iot_event.json", folder / "conf/schemas")
    return chance.choice(INPUTS[name])(lake, kafka, chance)  # type: ignore[call-arg]  # those of its subclasses


def record(event: Event, partitions: int) -> Record:
    """Return the record of an event; each device has one partition."""
    return Record(event.value, event.key, int(event.key.decode().removeprefix("device-")) % partitions)


class Feed:
    """Events that flow into an input, in bursts of random size.

    Args:
        into: The input.
        settings: Settings of the events.
        chance: Random source for the number of events at once.
    """

    def __init__(self, into: EventInput, settings: IotSettings, chance: random.Random) -> None:
        self.into, self._events, self._chance = into, iot_events(settings), chance
        # The range covers all events of the input.
        self.sent: list[Event] = []
        # Held while the test's Spark session is in use, because a pipeline's settings must not affect another
        # one.
        self.session = threading.Lock()

    def run(self, over: threading.Event) -> None:
        bursts = 0
        while not over.wait(BURST_SECONDS):
            count = self._chance.randint(1, LARGEST_BURST)
            self.send(self.take(count if len(self.sent) < ENOUGH_EVENTS else 1))
            bursts += 1
            if bursts % BURSTS_UNTIL_KEPT_UP == 0 and self.session.acquire(blocking=False):
                try:
                    self.into.keep_up()
                finally:
                    self.session.release()

    def take(self, count: int) -> list[Event]:
        return list(islice(self._events, count))

    def send(self, events: Sequence[Event]) -> None:
        self.sent += self.into.send(events)


@contextmanager
def feeding(feed: Feed) -> Iterator[None]:
    """Yield events that flow during a `with` block."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(feed.run, over)
        try:
            yield
        finally:
            over.set()
        running.result()
