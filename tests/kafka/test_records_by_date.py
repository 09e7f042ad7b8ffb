"""Nested records of a topic, flattened, by date: a query of some days reads only their files."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.support.kafka import Kafka
from tests.support.lake import Lake

# Noon of the last of five days; each has two readings.
NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
DAYS = 5

FLAT = """
SELECT id, source.device.name AS device, timestamp_seconds(reading.at) AS at, reading.value AS value,
       to_date(timestamp_seconds(reading.at)) AS day
FROM source
"""


def reading(number: int) -> bytes:
    at = NOW - timedelta(hours=12 * number)
    nested = {
        "id": number,
        "source": {"device": {"name": f"d{number}"}},
        "reading": {"at": int(at.timestamp()), "value": number / 2},
    }
    return json.dumps(nested).encode()


def read(rows: DataFrame) -> tuple[list[int], int]:
    """Return the ids of the rows, and the number of files that the plan has read for them."""
    ids = sorted(row["id"] for row in rows.collect())
    scan = rows._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    return ids, int(scan.metrics().apply("numFiles").value())


def test_nested_records_are_flattened_by_date_and_a_query_of_two_days_reads_only_theirs(
    kafka: Kafka, tmp_path: Path, spark: SparkSession
) -> None:
    lake = Lake(tmp_path / "lake", spark, kafka.bootstrap_servers)
    name = {"type": "object", "properties": {"name": {"type": "string"}}}
    properties = {
        "id": {"type": "integer"},
        "source": {"type": "object", "properties": {"device": name}},
        "reading": {
            "type": "object",
            "properties": {"at": {"type": "integer"}, "value": {"type": "number"}},
        },
    }
    (lake.folder / "spark_apps/transforms/flat.sql").write_text(FLAT)
    lake.pipeline(
        "readings",
        source={"kafka": {"topic": kafka.topic_with(map(reading, range(2 * DAYS)))}},
        payload={"json": {"schema": lake.schema("nested.json", properties)}},
        transform="flat.sql",
        sinks=[
            {"files": {"path": "exports/readings", "format": "parquet", "partition_by": ["day"]}},
            {"delta": {"table": "silver/readings", "partition_by": ["day"]}},
        ],
    ).run_incremental()
    for frame in (
        spark.read.parquet(str(lake.root / "exports/readings")),
        spark.read.format("delta").load(str(lake.root / "tables/silver/readings")),
    ):
        assert sorted(tuple(row) for row in frame.select("id", "device", "at", "value").collect()) == [
            (number, f"d{number}", (NOW - timedelta(hours=12 * number)).replace(tzinfo=None), number / 2)
            for number in range(2 * DAYS)
        ]
        last = f"timestamp'{NOW:%Y-%m-%d %H:%M:%S}' - INTERVAL 48 HOURS"
        recent = frame.where(f"day >= to_date({last}) AND at > {last}")
        # 48 hours touch three days. A topic of one partition is written by one task: a file for each day.
        assert read(recent) == ([0, 1, 2, 3], 3)
        assert read(frame.where("id >= 0")) == (list(range(2 * DAYS)), DAYS)
