"""A topic of orders, one per minute, and pipelines that read it: for backfills next to a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.kafka import Kafka, Record, send
from tests.support.lake import Lake, LakePipeline
from tidemill.sources.kafka_clients import KafkaClient
from tidemill.sources.offsets import KafkaOffsets

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {
    "id": {"type": "string"},
    "at": {"type": "string", "format": "date-time"},
    "price": {"type": "number"},
    "note": {"type": "string"},
}
EVENT_TIME = {"column": "at", "watermark": "1 minute"}

FILTER = """
def transform(orders):
    return orders.where("price > 0")
"""
WINDOWS = """
from pyspark.sql import functions as F

def transform(orders):
    counts = orders.groupBy(F.window("at", {window}), "id").count()
    return counts.select("id", F.col("window.start").alias("start"), "count")
"""


class Orders:
    """A topic of orders, one a minute, and the pipelines that read it."""

    def __init__(self, folder: Path, spark: SparkSession, kafka: Kafka) -> None:
        self.lake = Lake(folder / "lake", spark, kafka.bootstrap_servers)
        self.requires("id", "at", "price")
        self.kafka = kafka
        self.topic = kafka.new_topic("orders", 2)
        self.sent: list[dict[str, Any]] = []

    def requires(self, *properties: str) -> None:
        """Reject records without one of these properties from now on."""
        self.lake.schema("order.json", SCHEMA, list(properties))

    def send(self, count: int, without: str = "", **changes: Any) -> None:
        """Orders of the next minutes; each id comes every fifth time."""
        first = len(self.sent)
        orders = [
            {"id": f"o{number % 5}", "at": at(number), "price": 1.0, "note": "", **changes}
            for number in range(first, first + count)
        ]
        self.sent += orders
        send(
            self.kafka.bootstrap_servers,
            self.topic,
            [
                Record(
                    json.dumps({k: v for k, v in order.items() if k != without}).encode(),
                    order["id"].encode(),
                )
                for order in orders
            ],
        )

    def pipeline(self, name: str, transform: str | None = None, **keys: Any) -> LakePipeline:
        code = {} if transform is None else {"transform": self.lake.transform(name, transform)}
        declaration = {
            "source": {"kafka": {"topic": self.topic}},
            "payload": {"json": {"schema": "order.json"}},
            "event_time": EVENT_TIME,
            "sinks": [{"delta": {"table": f"silver/{name}"}}],
            **code,
            **keys,
        }
        return self.lake.pipeline(
            name, **{key: value for key, value in declaration.items() if value is not None}
        )

    def all_offsets(self) -> dict[str, str]:
        """Return the bounds of all that was sent."""
        with KafkaOffsets(KafkaClient(self.kafka.bootstrap_servers)) as offsets:
            start, end = offsets.ranges([self.topic])
        return {"start_offsets": json.dumps(start), "end_offsets": json.dumps(end)}

    def places(self, table: str) -> list[tuple[int, int]]:
        """Return the records that rows are made of."""
        return sorted((row["kafka_partition"], row["kafka_offset"]) for row in self.lake.rows(table))

    def delete(self, table: str, condition: str) -> None:
        self.lake.spark.sql(f"DELETE FROM delta.`{self.lake.root}/tables/{table}` WHERE {condition}")


@pytest.fixture
def orders(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Orders:
    return Orders(tmp_path, spark, kafka)


def at(minutes: int) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def windows_of(orders: Orders) -> list[tuple[str, datetime, int]]:
    rows = orders.lake.rows("silver/windows")
    return sorted((row["id"], row["start"], row["count"]) for row in rows)


def once(act: Callable[[], Any]) -> Callable[[str], None]:
    """Return a step callback that acts at the first step, as a live stream would."""
    waiting = [act]

    def step(_: str) -> None:
        if waiting:
            waiting.pop()()

    return step


class DiedError(Exception):
    """Stands for a driver that dies."""


def dies_at(*steps: str) -> Callable[[str], None]:
    def step(name: str) -> None:
        if name in steps:
            raise DiedError(name)

    return step
