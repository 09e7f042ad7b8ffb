"""Topics that producers write in transactions: committed records are read once, the others never."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from tests.support.kafka import TIMEOUT_SECONDS, Kafka
from tests.support.lake import Lake, LakePipeline
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.offsets import KafkaOffsets

# Number of offsets without a record at the end of a transaction, for its marker.
MARKER = 1


@pytest.fixture
def lake(lake: Lake, kafka: Kafka) -> Lake:
    return Lake(lake.folder, lake.spark, kafka.bootstrap_servers)


@contextmanager
def transaction(kafka: Kafka, topic: str, *ids: int) -> Iterator[Producer]:
    """Yield a transaction that is open, and has sent these."""
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{topic}-{ids[0]}"}
    )
    producer.init_transactions(TIMEOUT_SECONDS)
    producer.begin_transaction()
    for number in ids:
        producer.produce(topic, b'{"id": %d}' % number)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    yield producer


def commit(kafka: Kafka, topic: str, *ids: int) -> None:
    with transaction(kafka, topic, *ids) as producer:
        producer.commit_transaction(TIMEOUT_SECONDS)


def abort(kafka: Kafka, topic: str, *ids: int) -> None:
    with transaction(kafka, topic, *ids) as producer:
        producer.abort_transaction(TIMEOUT_SECONDS)


def orders(lake: Lake, topic: str, name: str = "orders", **source: object) -> LakePipeline:
    schema = lake.schema("order.json", {"id": {"type": "integer"}})
    return lake.pipeline(
        name,
        source={"kafka": {"topic": topic, **source}},
        payload={"json": {"schema": schema}},
        sinks=[{"delta": {"table": f"bronze/{name}"}}],
        run={"mode": "incremental"},
    )


def ids(lake: Lake, name: str = "orders") -> list[int]:
    return sorted(row["id"] for row in lake.rows(f"bronze/{name}"))


def end_of(pipeline: LakePipeline, topic: str) -> int:
    with KafkaOffsets(kafka_client(pipeline.resolved)) as offsets:
        return offsets.ends([topic])[topic]["0"]


def test_records_of_open_and_aborted_transactions_are_not_read(kafka: Kafka, lake: Lake) -> None:
    topic = kafka.new_topic("transactions")
    pipeline = orders(lake, topic)
    commit(kafka, topic, 1, 2)
    abort(kafka, topic, 3, 4, 5)
    # The topic ends with a marker, and the batch with it.
    first_end = 5 + 2 * MARKER
    assert (pipeline.run_incremental().status.lag, end_of(pipeline, topic)) == (0, first_end)
    assert ids(lake) == [1, 2]

    with transaction(kafka, topic, 6, 7) as late:
        # This one is committed, but behind the open one: its turn comes when that has ended.
        commit(kafka, topic, 8)
        assert end_of(pipeline, topic) == first_end
        pipeline.run_incremental()
        assert ids(lake) == [1, 2]
        late.commit_transaction(TIMEOUT_SECONDS)
    status = pipeline.run_incremental().status
    assert (status.lag, end_of(pipeline, topic)) == (0, first_end + 3 + 2 * MARKER)
    assert ids(lake) == [1, 2, 6, 7, 8]
    assert lake.quarantined("orders") == []

    # A batch that holds nothing but an aborted transaction, and a backfill over all of it.
    abort(kafka, topic, 9)
    assert pipeline.run_incremental().status.lag == 0
    assert ids(lake) == [1, 2, 6, 7, 8]
    past = orders(lake, topic, "past")
    past.backfill(start_offsets=f'{{"{topic}": {{"0": 0}}}}', end_offsets=f'{{"{topic}": {{"0": 9}}}}')
    assert ids(lake, "past") == [1, 2, 6, 7]


def test_a_pipeline_may_ask_for_all_records(kafka: Kafka, lake: Lake) -> None:
    topic = kafka.new_topic("transactions")
    pipeline = orders(lake, topic, isolation="read_uncommitted")
    abort(kafka, topic, 1)
    with transaction(kafka, topic, 2) as open_one:
        pipeline.run_incremental()
        assert end_of(pipeline, topic) == 2 + MARKER
        open_one.abort_transaction(TIMEOUT_SECONDS)
    assert ids(lake) == [1, 2]
