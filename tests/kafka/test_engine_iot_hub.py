"""An IoT hub's endpoint, played by the broker's SASL_SSL listener, with headers as Event Hubs gives them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.support.amqp_headers import ENQUEUED, message_headers
from tests.support.capture_files import CaptureFolder, Event
from tests.support.kafka import CONNECTION_STRING, TIMEOUT_SECONDS, Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tidemill.dev.broker_config import SASL_SSL

CAME = datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC)
EVERYTHING = ("2020-01-01", "2100-01-01")


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", CONNECTION_STRING)
    return Lake(tmp_path / "lake", spark)


def messages(lake: Lake, kafka: Kafka, hub: str) -> LakePipeline:
    source = {
        "namespace": "iothub-ns-plant-1-0a1b2c",
        "hub": hub,
        "auth": {"connection_string": "hub-connection"},
        "endpoint": kafka.broker.listeners[SASL_SSL],
        "ca_file": str(kafka.authority),
        "capture": {"path": "captured"},
    }
    lake.schema("reading.json", {"id": {"type": "integer"}})
    return lake.pipeline(
        "messages",
        source={"iothub": source},
        payload={"json": {"schema": "reading.json"}},
        event_time={"column": "iothub_enqueued_time", "watermark": "1 minute"},
        sinks=[{"delta": {"table": "bronze/messages"}}],
    )


def message(number: int) -> Record:
    headers = message_headers(f"d{number}", {"site": "north"}, message_id=f"m{number}")
    return Record(json.dumps({"id": number}).encode(), headers=tuple(headers))


def captured(number: int) -> Event:
    """Return the same message as Capture stores it: texts and integers in two maps."""
    system = {
        "iothub-connection-device-id": f"d{number}",
        "iothub-connection-auth-method": '{"scope":"device","type":"sas","issuer":"iothub"}',
        "iothub-connection-auth-generation-id": "637388855582764406",
        "iothub-enqueuedtime": ENQUEUED,
        "iothub-message-source": "Telemetry",
        "message-id": f"m{number}",
        "x-opt-enqueued-time": int(datetime.now(UTC).timestamp() * 1000),
    }
    body = json.dumps({"id": number}).encode()
    return Event(number, datetime.now(UTC), body, properties={"site": "north"}, system=system)


def rows(lake: Lake) -> list[dict[str, Any]]:
    """Return all columns except the times at which broker and archive accepted the messages."""
    kept = lake.rows("bronze/messages")
    return sorted(
        ({name: value for name, value in row.items() if name != "kafka_timestamp"} for row in kept),
        key=lambda row: row["id"],
    )


def test_messages_live_again_and_out_of_an_archive_give_the_same_columns(kafka: Kafka, lake: Lake) -> None:
    hub = kafka.new_topic("messages")
    kafka.send(hub, [message(0), message(1)])
    pipeline = messages(lake, kafka, hub)
    pipeline.run_incremental()
    kafka.send(hub, [message(2)])
    pipeline.run_incremental()
    live = rows(lake)
    assert live[2] == {
        "id": 2,
        "kafka_key": None,
        "kafka_topic": hub,
        "kafka_partition": 0,
        "kafka_offset": 2,
        "iothub_device_id": "d2",
        "iothub_module_id": None,
        "iothub_enqueued_time": CAME,
        "iothub_auth_method": '{"scope":"device","type":"sas","issuer":"iothub"}',
        "iothub_generation_id": "637388855582764406",
        "iothub_message_source": "Telemetry",
        "iothub_message_id": "m2",
        "iothub_correlation_id": None,
        "iothub_content_type": None,
        "iothub_content_encoding": None,
        "iothub_properties": [("site", "north")],
    }
    assert [row["iothub_device_id"] for row in live] == ["d0", "d1", "d2"]

    archive = CaptureFolder(lake.root / "captured", "iothub-ns-plant-1-0a1b2c", hub)
    archive.write(0, datetime.now(UTC), [captured(0), captured(1)])
    place = TopicPartition(hub, 0, 2)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_records([place])[place].result(TIMEOUT_SECONDS)
    lake.spark.sql(f"DELETE FROM delta.`{lake.root}/tables/bronze/messages` WHERE true")
    plan = pipeline.plan(*EVERYTHING)
    assert plan.archive is not None
    assert plan.archive.join == {hub: {"0": 2}}
    pipeline.apply(plan)

    assert rows(lake) == live
    assert all(difference.is_none for difference in pipeline.verify(plan).values())
