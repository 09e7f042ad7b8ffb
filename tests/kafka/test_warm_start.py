"""A new generation whose state comes from the past: from a hub's archive and the hub, joined live."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from tests.support.captured_hub import COUNTS, START, CapturedHub, at
from tests.support.kafka import CONNECTION_STRING, Kafka, Record
from tests.support.lake import Lake, LakePipeline
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.control.procedures import parts
from tidemill.engine.analyse import analyse
from tidemill.engine.drain import Drain
from tidemill.errors import UnavailableError
from tidemill.sources.broker_records import BrokerRange, broker_rows
from tidemill.storage.advance import nobody_told

LONG_AGO = "2020-01-01T00:00:00Z"


class KilledError(Exception):
    """Stands for SIGKILL at a step."""


@pytest.fixture
def hub(tmp_path: Path, spark: SparkSession, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> CapturedHub:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", CONNECTION_STRING)
    return CapturedHub(Lake(tmp_path / "lake", spark), kafka)


def windows_of(hub: CapturedHub, **keys: Any) -> LakePipeline:
    return hub.pipeline("windows", transform=hub.lake.transform("windows", COUNTS), **keys)


def reset_warm(pipeline: LakePipeline, start: str) -> dict[str, Any]:
    """Do what `tidemill checkpoint reset PIPELINE --from START --warm --apply` does."""
    analyse(pipeline.lake.spark, pipeline.started)
    made = parts.reset(pipeline.resolved, start, warm=True)
    store, layout = pipeline.lake.store, pipeline.resolved.layout
    request = Request("reset", pipeline.name, "warm", "tests", "test")
    plan = plan_of(store, layout, request, made.make_plan)
    made.consent(plan)
    carry_out(
        store, layout, procedure_of(request, plan, made.steps(request, plan, nobody_told)), lambda: None
    )
    assert made.lines(plan)
    return dict(plan)


def counts(hub: CapturedHub) -> list[tuple[datetime, int]]:
    """Return rows as they are, so that one that is there twice is seen."""
    return sorted((row["window_start"], row["events"]) for row in hub.lake.rows("silver/windows"))


def whole(count: int) -> list[tuple[datetime, int]]:
    """Return windows of this number of events, one a minute, as a batch computes them, without open ones."""
    found = Counter(START + timedelta(minutes=10 * (number // 10)) for number in range(count))
    until = START + timedelta(minutes=count - 2 - 10)
    return sorted((start, events) for start, events in found.items() if start <= until)


def test_state_comes_from_archive_and_hub_and_windows_are_those_of_all_events(
    hub: CapturedHub, kafka: Kafka
) -> None:
    """Killed in the past. The window across the seam has all its events; a broken one is set aside once."""
    pipeline = windows_of(hub)
    hub.send(67)
    kafka.send(hub.hub, [Record(b"{", None, 1)])
    pipeline.run_incremental()
    assert counts(hub) == whole(67)
    hub.capture(0, 0, 20)
    hub.capture(0, 18, 30)
    hub.capture(1, 0, 32)
    hub.forget(0, 29)
    hub.forget(1, 30)

    plan = reset_warm(pipeline, LONG_AGO)
    assert (plan["never_read"], plan["read_again"], plan["state_is_lost"]) == (0, 0, False)
    assert plan["warm"]["archive"]["join"] == {hub.hub: {"0": 30, "1": 32}}
    with pytest.raises(KilledError):
        pipeline.run_incremental(killed)
    hub.send(66)
    pipeline.run_incremental()

    assert counts(hub) == whole(133)
    assert len(hub.lake.quarantined("windows")) == 1
    entries = [commit.entry for commit in hub.lake.ledger("silver/windows") if commit.entry]
    past = next(entry for entry in entries if (entry.generation, entry.batch_id) == ("g0002", 0))
    assert (past.rows, past.sources["source"].end) == (0, {hub.hub: {"0": 34, "1": 34}})


@pytest.mark.soak
def test_a_stop_right_after_the_past_leaves_no_late_event_uncounted(hub: CapturedHub, kafka: Kafka) -> None:
    """Spark has no watermark yet, so it does not know that the event's window is already in the table."""
    event_time = {"column": "at", "watermark": "1 minute", "late": "table"}
    pipeline = windows_of(hub, event_time=event_time)
    hub.send(40)
    pipeline.run_incremental()
    reset_warm(pipeline, LONG_AGO)
    drain = Drain()
    pipeline.run_incremental(lambda step: drain.request() if step == "committed" else None, drain)
    checkpoint = pipeline.checkpoint.with_name("g0002")
    assert CheckpointBatches(hub.lake.store, str(checkpoint)).last_committed() == 0
    (checkpoint / "offsets/1").unlink(missing_ok=True)

    late = json.dumps({"id": 1_000, "at": at(5)}).encode()
    kafka.send(hub.hub, [Record(late, b"late", 0)])
    hub.send(40)
    pipeline.run_incremental()
    assert counts(hub) == whole(80)
    assert [json.loads(row["value"])["id"] for row in hub.lake.late("windows")] == [1_000]


def killed(step: str) -> None:
    """Kill the start after the table's commit of the first batch, before Spark's."""
    if step == "committed":
        raise KilledError


def test_a_range_of_the_broker_is_read_as_a_whole_or_not_at_all(kafka: Kafka) -> None:
    topic = kafka.topic_with([b"%d" % number for number in range(6)])
    admin, place = AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), TopicPartition(topic, 0, 2)
    admin.delete_records([place])[place].result(30)
    client = {"bootstrap.servers": kafka.bootstrap_servers}

    def read(first: int, end: int) -> list[tuple[int, bytes]]:
        rows = broker_rows(client, BrokerRange(topic, 0, first, end))
        return [(row["kafka_offset"], row["kafka_value"]) for row in rows]

    assert read(2, 5) == [(2, b"2"), (3, b"3"), (4, b"4")]
    for first, end in ((1, 5), (2, 7)):
        with pytest.raises(UnavailableError) as refused:
            read(first, end)
        assert refused.value.error_id == "TIDE-SRC-010"
    # The mark of a transaction's end takes an offset, and is no record.
    producer = Producer({**client, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"6", partition=0)
    producer.commit_transaction(30)
    assert read(5, 8) == [(5, b"5"), (6, b"6")]
