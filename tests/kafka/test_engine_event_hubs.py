"""Event Hubs' Kafka endpoint, played by the broker's SASL_SSL listener: same protocol, same login."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.driver_process import START_TIMEOUT_SECONDS, Drivers, drivers_of
from tests.support.kafka import CONNECTION_STRING, EVENT_HUBS_USER, Kafka
from tests.support.lake import Lake, LakePipeline
from tidemill.dev.broker_config import SASL_SSL
from tidemill.engine.availability import check_source
from tidemill.errors import SpecError, UnavailableError

HUB_SECRET = "TIDEMILL_SECRET_HUB_CONNECTION"

# A part of the connection string's key that no escaping changes.
KEY_PART = b"q=+/#!:"


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    values = {HUB_SECRET: CONNECTION_STRING, "TIDEMILL_SECRET_BROKER_PASSWORD": CONNECTION_STRING}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Lake:
    return Lake(tmp_path / "lake", spark, environment={"kafka": encrypted(kafka)})


def encrypted(kafka: Kafka) -> dict[str, Any]:
    """Return the environment's own brokers, reached with a password and TLS."""
    return {
        "bootstrap_servers": kafka.broker.listeners[SASL_SSL],
        "security": {
            "protocol": "SASL_SSL",
            "mechanism": "PLAIN",
            "username": EVENT_HUBS_USER,
            "password": "broker-password",
            "ca_file": str(kafka.authority),
        },
    }


def from_hub(lake: Lake, kafka: Kafka, hub: str, *sinks: dict[str, Any]) -> LakePipeline:
    source = {
        "namespace": "plant-north",
        "hub": hub,
        "auth": {"connection_string": "hub-connection"},
        "endpoint": kafka.broker.listeners[SASL_SSL],
        "ca_file": str(kafka.authority),
    }
    return lake.pipeline(
        "readings", source={"eventhubs": source}, sinks=[{"delta": {"table": "bronze/readings"}}, *sinks]
    )


def values(lake: Lake) -> list[bytes]:
    return sorted(row["kafka_value"] for row in lake.rows("bronze/readings"))


def test_a_hub_is_read_again_from_where_the_last_run_ended_and_can_be_backfilled(
    kafka: Kafka, lake: Lake, secrets: Mapping[str, str]
) -> None:
    hub = kafka.topic_with([b"1", b"2"], partitions=2)
    pipeline = from_hub(lake, kafka, hub)
    pipeline.run_incremental()
    kafka.send(hub, [b"3"])
    pipeline.run_incremental()
    assert values(lake) == [b"1", b"2", b"3"]
    assert lake.ledger("bronze/readings")[0].rows == 1

    lake.spark.sql(f"DELETE FROM delta.`{lake.root}/tables/bronze/readings` WHERE kafka_partition = 0")
    pipeline.backfill("2020-01-01", "2100-01-01")

    assert values(lake) == [b"1", b"2", b"3"]


def test_a_wrong_connection_string_is_told_at_once_and_as_what_it_is(
    kafka: Kafka, lake: Lake, secrets: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = from_hub(lake, kafka, kafka.new_topic())
    monkeypatch.setenv(HUB_SECRET, CONNECTION_STRING + "wrong")

    with pytest.raises(SpecError) as refused:
        check_source(pipeline.resolved)

    assert refused.value.error_id == "TIDE-SRC-003"
    assert KEY_PART.decode() not in str(refused.value)


def test_a_hub_that_is_not_there_is_named(kafka: Kafka, lake: Lake, secrets: Mapping[str, str]) -> None:
    with pytest.raises(UnavailableError) as waits:
        check_source(from_hub(lake, kafka, "reedings").resolved)
    assert (waits.value.error_id, waits.value.facts["topic"]) == ("TIDE-SRC-002", "reedings")


@pytest.fixture
def drivers(lake: Lake, secrets: Mapping[str, str]) -> Iterator[Drivers]:
    with drivers_of(lake.folder, secrets) as drivers:
        yield drivers


@pytest.mark.soak
def test_a_driver_writes_the_secret_nowhere(kafka: Kafka, lake: Lake, drivers: Drivers) -> None:
    hub, sent = kafka.topic_with([b"1"]), kafka.new_topic("sent")
    from_hub(lake, kafka, hub, {"kafka": {"topic": sent}})

    first = drivers.start("readings", "incremental")
    assert first.wait(START_TIMEOUT_SECONDS) == 0, first.output[-3000:]

    assert values(lake) == [b"1"]
    assert len(kafka.read(sent)) == 1
    assert with_secret(lake.folder) == []
    drivers.variables = {**drivers.variables, HUB_SECRET: CONNECTION_STRING + "wrong"}
    wrong = drivers.start("readings", "incremental")
    assert wrong.wait(START_TIMEOUT_SECONDS) == SpecError.exit_code
    assert "TIDE-SRC-003" in wrong.output
    assert with_secret(lake.folder) == []


def with_secret(folder: Path) -> list[Path]:
    """Return files of the project, its storage and its logs that hold a part of the key."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    return [path for path in files if KEY_PART in path.read_bytes()]
