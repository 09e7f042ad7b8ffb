"""One partition that has most of a topic's records: found by the doctor, and split as its page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake, LakePipeline

SKEWED = "TIDE-TUNE-012"
EACH = [1200, 20, 20, 20]


def declare(lake: Lake, topic: str, **more: Any) -> LakePipeline:
    source = {"kafka": {"topic": topic, "max_offsets_per_batch": 500, **more}}
    return lake.pipeline("orders", source=source, sinks=[{"delta": {"table": "bronze/orders"}}])


@pytest.mark.soak
def test_a_partition_that_has_most_of_the_records_is_found_and_read_by_several_tasks(
    tmp_path: Path, spark: SparkSession, kafka: Kafka
) -> None:
    lake = Lake(tmp_path / "lake", spark, kafka.bootstrap_servers)
    topic = kafka.new_topic(partitions=len(EACH))
    pipeline = declare(lake, topic)

    def send() -> None:
        records = ((part, count) for part, count in enumerate(EACH))
        kafka.send(topic, [Record(b"x", partition=part) for part, count in records for _ in range(count)])

    send()
    reporter = pipeline.run_incremental()
    finding = pipeline.findings_after(reporter)[SKEWED]
    told = {name: finding.facts[name] for name in ("topic", "partition", "partitions")}
    assert told == {"topic": topic, "partition": "0", "partitions": 4}
    assert (finding.facts["rows_of_it"], finding.facts["rows_of_all"]) == (1200, sum(EACH))
    assert (finding.runbook, finding.severity) == ("skewed-source", "note")
    assert "minPartitions" in finding.fix
    # The lag after each batch is also reported for the partition with the most lag.
    waiting = [batch.behind or 0 for batch in pipeline.measured_by(reporter).batches]
    assert len(waiting) == 3
    assert waiting == sorted(waiting, reverse=True)
    assert waiting[0] > 0 == waiting[-1]

    split = declare(lake, topic, options={"minPartitions": 8})
    assert SKEWED not in split.findings_after(reporter)
    send()
    assert SKEWED not in split.findings_after(split.run_incremental())
    places = [(row["kafka_partition"], row["kafka_offset"]) for row in lake.rows("bronze/orders")]
    assert sorted(places) == [(part, n) for part, count in enumerate(EACH) for n in range(2 * count)]
