"""An event hub of Azure: what is sent over AMQP comes by Kafka, once."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.azure.conftest import HUB
from tests.support.lake import Lake
from tidemill.dev.hub_outlet import HubTarget
from tidemill.dev.iot_events import IotSettings, iot_events
from tidemill.dev.produce import Pace, produce
from tidemill.sources.hub_facts import ask_hub

COUNT = 200


def test_events_sent_by_amqp_are_read_by_kafka_and_again_by_a_backfill(
    lake: Lake, event_hub: dict[str, Any]
) -> None:
    began = datetime.now(UTC) - timedelta(minutes=1)
    pipeline = lake.pipeline(
        "readings",
        source={"eventhubs": {**event_hub, "starting_offsets": began.isoformat()}},
        sinks=[{"delta": {"table": "bronze/readings"}}],
    )
    before = sum(each.end for each in ask_hub(pipeline.resolved).partitions.values())
    # Another seed each time: the hub may have events of an earlier run.
    settings = IotSettings(start=datetime.now(UTC), seed=int(began.timestamp()))
    target = HubTarget(event_hub["hub"], "hub-connection", os.environ[HUB["connection"]])
    assert produce(target, settings, Pace(count=COUNT)).total == COUNT
    assert sum(each.end for each in ask_hub(pipeline.resolved).partitions.values()) >= before + COUNT

    pipeline.run_incremental()

    sent = {(event.key, event.value) for event in itertools.islice(iot_events(settings), COUNT)}
    rows = lake.rows("bronze/readings")
    read = {(row["kafka_key"], row["kafka_value"]) for row in rows}
    assert sent <= read
    lake.spark.sql(f"DELETE FROM delta.`{lake.root}/tables/bronze/readings` WHERE kafka_offset % 2 = 0")
    pipeline.backfill(began.isoformat(), (datetime.now(UTC) + timedelta(minutes=1)).isoformat())
    places = ("kafka_partition", "kafka_offset")
    assert sorted(tuple(row[name] for name in places) for row in lake.rows("bronze/readings")) == sorted(
        tuple(row[name] for name in places) for row in rows
    )
