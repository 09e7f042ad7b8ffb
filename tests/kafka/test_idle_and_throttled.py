"""A hub cuts connections that are idle, and throttles who reads too fast: neither is a loss of data."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from tests.support.certificates import Certificates
from tests.support.eventually import eventually
from tests.support.kafka import CONNECTION_STRING, EVENT_HUBS_USER, TIMEOUT_SECONDS, Kafka
from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import running_stream
from tidemill.dev.broker import start_broker, stop_broker
from tidemill.dev.broker_config import SASL_SSL, BrokerConfig, PlainLogin
from tidemill.dev.broker_process import find_broker
from tidemill.engine.reporter import Reporter
from tidemill.sources.read import read_streams

# Seconds after which the broker cuts a connection, below the stream's trigger; Event Hubs does after 240.
IDLE_SECONDS = 2
TRIGGER = "4 seconds"

# Bytes a second that one user may read, and how many there are: seconds of throttling.
QUOTA, RECORD_BYTES, RECORDS = 60_000, 2_000, 200


@pytest.fixture
def strict(tmp_path: Path, certificates: Certificates) -> Iterator[Kafka]:
    """Yield a broker that closes idle connections, as a hub does, but does not throttle, which is slower."""
    config = BrokerConfig(
        tmp_path / "broker",
        login=PlainLogin(EVENT_HUBS_USER, CONNECTION_STRING),
        key_store=certificates.key_store,
        properties={"connections.max.idle.ms": IDLE_SECONDS * 1000},
    )
    broker = start_broker(config)
    yield Kafka(broker, certificates.authority)
    if (found := find_broker(config.data_dir)) is not None:
        stop_broker(found)


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", CONNECTION_STRING)
    return Lake(tmp_path / "lake", spark)


def declared(lake: Lake, kafka: Kafka, hub: str) -> LakePipeline:
    source = {
        "namespace": "plant-north",
        "hub": hub,
        "auth": {"connection_string": "hub-connection"},
        "endpoint": kafka.broker.listeners[SASL_SSL],
        "ca_file": str(kafka.authority),
        "max_offsets_per_batch": 100,
    }
    sink = {"delta": {"table": "bronze/readings"}}
    return lake.pipeline("readings", source={"eventhubs": source}, sinks=[sink], run={"trigger": TRIGGER})


@pytest.mark.soak
def test_a_stream_reads_on_though_its_connections_are_cut(strict: Kafka, lake: Lake) -> None:
    hub = strict.topic_with([b"0"], partitions=2)
    with running_stream(declared(lake, strict, hub)) as live, closing(idle_connection(strict)) as idle:
        live.wait_until(lambda: len(rows(lake)) == 1, "the first record is there")
        eventually(lambda: idle.recv(1) == b"", "the broker has cut an idle connection", 60)
        strict.send(hub, [b"%d" % number for number in range(1, 20)])
        live.wait_until(lambda: len(rows(lake)) == 20, "records that came after the cut are there")
        reporter = live.drain()
    assert_one_query_read(lake, reporter, 20)


@pytest.mark.soak
def test_a_stream_reads_on_though_its_fetches_are_throttled(
    kafka: Kafka, lake: Lake, spark: SparkSession
) -> None:
    hub = kafka.topic_with([b"0"], partitions=2)
    with running_stream(declared(lake, kafka, hub)) as live, limited_reading(spark, kafka):
        live.wait_until(lambda: len(rows(lake)) == 1, "the first record is there")
        kafka.send(hub, [b"%d" % n + b" " * RECORD_BYTES for n in range(1, 1 + RECORDS)])
        live.wait_until(lambda: len(rows(lake)) == 1 + RECORDS, "records that are throttled are there")
        assert throttled(kafka, hub) > 0
        reporter = live.drain()
    assert_one_query_read(lake, reporter, 1 + RECORDS)


def assert_one_query_read(lake: Lake, reporter: Reporter, count: int) -> None:
    """Check that one query has read all rows once, and never reported them as lost."""
    assert sorted(rows(lake)) == list(range(count))
    assert reporter.status.error is None
    entries = [commit.entry for commit in lake.ledger("bronze/readings") if commit.entry]
    assert len({(entry.run_id, entry.query_id) for entry in entries}) == 1


def rows(lake: Lake) -> list[int]:
    if not lake.data_files("bronze/readings"):
        return []
    return [int(row["kafka_value"].strip()) for row in lake.rows("bronze/readings")]


def idle_connection(kafka: Kafka) -> socket.socket:
    host, port = kafka.bootstrap_servers.rsplit(":", 1)
    found = socket.create_connection((host, int(port)))
    found.settimeout(60)
    return found


@contextmanager
def limited_reading(spark: SparkSession, kafka: Kafka) -> Iterator[None]:
    """Limit the reading rate in a `with` block, with Kafka's own client: confluent-kafka has no quotas."""
    alter_quota(spark, kafka, float(QUOTA))
    try:
        yield
    finally:
        alter_quota(spark, kafka, None)


def alter_quota(spark: SparkSession, kafka: Kafka, limit: float | None) -> None:
    java: Any = spark._jvm
    quota = java.org.apache.kafka.common.quota
    entity = quota.ClientQuotaEntity(java.java.util.Map.of("user", EVENT_HUBS_USER))
    alteration = getattr(quota, "ClientQuotaAlteration$Op")("consumer_byte_rate", limit)
    change = quota.ClientQuotaAlteration(entity, java.java.util.List.of(alteration))
    options = java.java.util.Map.of("bootstrap.servers", kafka.bootstrap_servers)
    admin = java.org.apache.kafka.clients.admin.Admin.create(options)
    admin.alterClientQuotas(java.java.util.List.of(change)).all().get()
    admin.close()


def throttled(kafka: Kafka, hub: str) -> int:
    """Return how often the broker throttles another consumer of the same user."""
    told: list[float] = []
    options = {
        **kafka.client_options(SASL_SSL),
        "group.id": "tests",
        "throttle_cb": lambda event: told.append(event.throttle_time),
    }
    consumer = Consumer(options)
    consumer.assign([TopicPartition(hub, 0, 0), TopicPartition(hub, 1, 0)])
    eventually(lambda: (consumer.consume(500, 0.5), told)[1], "a fetch is throttled", TIMEOUT_SECONDS)
    consumer.close()
    return len(told)


def test_the_source_of_spark_is_given_what_clients_of_a_hub_need(
    kafka: Kafka, lake: Lake, spark: SparkSession
) -> None:
    """And still is if a source sets some of Spark's options itself."""
    pipeline = declared(lake, kafka, kafka.topic_with([b"0"]))
    (records,) = read_streams(spark, pipeline.resolved).values()
    options = json.loads(relation_options(records))
    assert {name: options[f"kafka.{name}"] for name in NEEDED} == NEEDED


NEEDED = {
    "connections.max.idle.ms": "180000",
    "metadata.max.age.ms": "180000",
    "request.timeout.ms": "60000",
    "session.timeout.ms": "30000",
}


def relation_options(records: Any) -> str:
    """Return options of the one source in a plan, without those that hold secrets."""
    plan = records._jdf.queryExecution().logical()
    while plan.children().nonEmpty():
        plan = plan.children().head()
    found = dict(plan.extraOptions().asCaseSensitiveMap())
    return json.dumps({name: value for name, value in found.items() if name[6:] in NEEDED})
