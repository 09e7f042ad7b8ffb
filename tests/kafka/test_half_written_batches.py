"""A batch that a crash left half written, and a schema that was changed before its repetition.

Each record must end in exactly one place: the table, the quarantine, or a batch that is refused until the old
code has finished it.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from tests.support.kafka import Kafka
from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError, crash_at
from tidemill.errors import GateRefusedError

COLUMNS = {"id": {"type": "integer"}, "price": {"type": "integer"}, "note": {"type": "string"}}
# Each transform rejects the rows that the other one accepts; the columns are the same.
OLD, NEW = ["id", "price"], ["id", "note"]

# Steps after which the driver of a batch is gone. After the first nothing is committed, after the last
# everything: other code may then continue. In between it may not.
STEPS = {"arrow": ("files_written", "quarantined", "committed"), "spark": ("quarantined", "committed")}


def orders(lake: Lake, topic: str, writer: str) -> LakePipeline:
    return lake.pipeline(
        "orders",
        source={"kafka": {"topic": topic}},
        payload={"json": {"schema": "order.json"}},
        sinks=[{"delta": {"table": "bronze/orders", "writer": writer}}],
        run={"mode": "incremental"},
    )


def places(lake: Lake) -> Counter[int]:
    """Return how often each offset is in the table or in the quarantine."""
    rows = [row["kafka_offset"] for row in lake.rows("bronze/orders")]
    return Counter([*rows, *(row["offset"] for row in lake.quarantined("orders"))])


@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_a_record_is_in_one_place_though_the_schema_was_changed_after_a_crash_at_any_step(
    kafka: Kafka, lake: Lake, writer: str
) -> None:
    lake = Lake(lake.folder, lake.spark, kafka.bootstrap_servers)
    topic = kafka.new_topic("orders")
    pipeline = orders(lake, topic, writer)
    lake.schema("order.json", COLUMNS, OLD)
    numbers = itertools.count()
    for batch_id, step in enumerate(STEPS[writer]):
        records = [{"id": next(numbers), "price": 1}, {"id": next(numbers), "note": "x"}]
        kafka.send(topic, [json.dumps(record).encode() for record in records])
        with pytest.raises(CrashedError):
            pipeline.run_incremental(crash_at(step))
        lake.schema("order.json", COLUMNS, NEW)
        if step == "quarantined":
            with pytest.raises(GateRefusedError) as refused:
                pipeline.run_incremental()
            assert (refused.value.error_id, refused.value.runbook) == ("TIDE-SINK-007", "half-written-batch")
            assert refused.value.facts["batch_id"] == batch_id
            assert refused.value.facts["written"] == ["quarantine"]
            assert refused.value.facts["left"] == ["bronze/orders"]
            # The way out: the old code for one start.
            lake.schema("order.json", COLUMNS, OLD)
        pipeline.run_incremental()
        lake.schema("order.json", COLUMNS, OLD)
        assert places(lake) == dict.fromkeys(range(2 * batch_id + 2), 1)


@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_rejected_records_survive_a_crash_at_any_step(kafka: Kafka, lake: Lake, writer: str) -> None:
    lake = Lake(lake.folder, lake.spark, kafka.bootstrap_servers)
    topic = kafka.new_topic("orders")
    pipeline = orders(lake, topic, writer)
    lake.schema("order.json", COLUMNS, OLD)
    for batch_id, step in enumerate(STEPS[writer]):
        kafka.send(topic, [b'{"id": 1, "price": 1}', b"{"])
        with pytest.raises(CrashedError):
            pipeline.run_incremental(crash_at(step))
        pipeline.run_incremental()
        assert places(lake) == dict.fromkeys(range(2 * batch_id + 2), 1)
        entries = [commit.entry for commit in lake.ledger("bronze/orders") if commit.entry]
        assert [(e.batch_id, e.quarantined_rows) for e in entries] == [
            (n, 1) for n in range(batch_id, -1, -1)
        ]
