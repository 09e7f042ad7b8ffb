"""Spark's continuous and real-time triggers on a real broker: at least once, through kills and changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.driver_process import DriverProcess, Drivers, drivers_of
from tests.support.eventually import eventually
from tests.support.kafka import Kafka
from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import running_stream
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.status import Status
from tidemill.engine.liveness import ready
from tidemill.errors import FencedError, GateRefusedError

TRIGGERS = {"continuous": {"continuous": "1 second"}, "real_time": {"real_time": "5 seconds"}}

# Seconds for a row to get through a driver that first has to start, next to another driver.
TIMEOUT_SECONDS = 120.0

SQL = """
SELECT from_json(CAST(kafka_value AS STRING), 'id BIGINT').id AS id, kafka_offset
FROM source WHERE kafka_value IS NOT NULL
"""


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> Lake:
    lake = Lake(tmp_path / "lake", spark, kafka.bootstrap_servers)
    (lake.folder / "spark_apps/transforms/ids.sql").write_text(SQL)
    return lake


def copying(lake: Lake, name: str, topic: str, trigger: Any, **sink: Any) -> LakePipeline:
    """Return a pipeline that sends the ids of a topic on, as they come."""
    return lake.pipeline(
        name,
        source={"kafka": {"topic": topic}},
        transform="ids.sql",
        sinks=[sink],
        run={"mode": "stream", "trigger": trigger},
    )


def send(kafka: Kafka, topic: str, ids: range) -> None:
    kafka.send(topic, [json.dumps({"id": number}).encode() for number in ids])


def ids(kafka: Kafka, topic: str) -> list[int]:
    return [json.loads(record.value or b"")["id"] for record in kafka.read(topic)]


def until_has(kafka: Kafka, topic: str, wanted: range) -> None:
    eventually(lambda: {*ids(kafka, topic)} >= {*wanted}, f"{topic} has {wanted}", TIMEOUT_SECONDS, 0.3)


@pytest.mark.soak
def test_a_killed_driver_loses_nothing_a_newer_one_ends_it_and_a_drain_leaves_its_place(
    kafka: Kafka, lake: Lake
) -> None:
    topic, outputs = kafka.new_topic("in"), {name: kafka.new_topic(name) for name in TRIGGERS}
    for name, trigger in TRIGGERS.items():
        copying(lake, name, topic, trigger, kafka={"topic": outputs[name]})
    send(kafka, topic, range(50))

    with drivers_of(lake.folder) as drivers:
        killed = {name: drivers.start(name) for name in TRIGGERS}
        for name, driver in killed.items():
            drivers.wait_for_batch(name, driver)
            eventually(
                lambda name=name: set(ids(kafka, outputs[name])) == {*range(50)}, name, TIMEOUT_SECONDS
            )
        send(kafka, topic, range(50, 60))
        for name, driver in killed.items():
            until_has(kafka, outputs[name], range(60))
            driver.kill()
        send(kafka, topic, range(60, 100))

        noted = {name: drivers.committed(name) for name in TRIGGERS}
        last = {name: drivers.start(name) for name in TRIGGERS}
        for name, driver in last.items():
            drivers.wait_for_batch(name, driver, noted[name])
            until_has(kafka, outputs[name], range(100))
            assert_says_what_it_is(drivers, name, driver)

        environment = drivers.environment
        claim_epoch(drivers.store, environment.layout, "continuous", "a-newer-one")
        assert last["continuous"].wait(TIMEOUT_SECONDS) == FencedError.exit_code
        assert last["real_time"].terminate() == 0
        receipt = drivers.receipt("real_time")

    assert receipt is not None
    assert (receipt.result, receipt.batch_id, receipt.unfinished_batch) == (
        "clean",
        drivers.committed("real_time"),
        None,
    )
    assert receipt.offsets == {"source": {topic: {"0": 100}}}
    for name in TRIGGERS:
        assert set(ids(kafka, outputs[name])) == {*range(100)}


def assert_says_what_it_is(drivers: Drivers, name: str, driver: DriverProcess) -> None:
    def is_ready() -> Status | None:
        # The checkpoint has the note before the status reports it.
        status = drivers.wait_for_status(name, driver, "running")
        return status if ready(status).good else None

    status = eventually(is_ready, f"{name} says that it has noted something", TIMEOUT_SECONDS)
    assert status.trigger == name
    verdict = ready(status)
    assert verdict.good
    assert f"without batches ({name}), at least once" in verdict.reason


def test_a_checkpoint_goes_on_from_batches_and_its_notes_are_not_taken_for_batches(
    kafka: Kafka, lake: Lake
) -> None:
    topic, output = kafka.new_topic("in"), kafka.new_topic("out")
    sent = 0
    for trigger in ("real_time", "available_now", "real_time", "available_now", "continuous", "continuous"):
        pipeline = copying(lake, "ids", topic, TRIGGERS.get(trigger, "1 second"), kafka={"topic": output})
        batches = CheckpointBatches(lake.store, str(pipeline.checkpoint))
        before = batches.last_committed()
        send(kafka, topic, range(sent, sent + 10))
        sent += 10
        if trigger == "available_now":
            pipeline.run_incremental()
        else:
            leave_notes_ahead(pipeline, topic)
            with running_stream(pipeline) as stream:
                stream.wait_until(
                    lambda sent=sent: set(ids(kafka, output)) >= {*range(sent)}, f"{trigger} up to {sent}"
                )
                noted, last = stream.drain().status.batch_id, batches.last_committed()
                assert noted is not None
                assert last in (noted, noted + 1)
        assert set(ids(kafka, output)) == {*range(sent)}
        last = batches.last_committed()
        assert last is not None
        assert last > (-1 if before is None else before)
        newest = batches.offsets(last)
        assert newest is not None
        assert newest.is_note is (trigger == "continuous")

    with pytest.raises(GateRefusedError) as refused:
        copying(lake, "ids", topic, "1 second", kafka={"topic": output}).run_incremental()
    assert refused.value.error_id == "TIDE-CKPT-098"
    assert json.dumps({topic: {"0": sent}}) in refused.value.fix
    assert set(ids(kafka, output)) == {*range(sent)}


WRITER = """
from pathlib import Path


class Writer:
    def open(self, partition_id, number):
        self.file = Path({folder!r}) / f"{{partition_id}}-{{number}}"
        return True

    def process(self, row):
        with self.file.open("a") as file:
            file.write(f"{{row.id}}\\n")
"""


def test_a_writer_gets_rows_in_real_time(kafka: Kafka, lake: Lake) -> None:
    rows, topic = lake.folder / "rows", kafka.new_topic("in")
    rows.mkdir()
    (lake.folder / "spark_apps/transforms/own.py").write_text(WRITER.format(folder=str(rows)))
    pipeline = copying(lake, "ids", topic, TRIGGERS["real_time"], foreach={"writer": "own:Writer"})
    send(kafka, topic, range(20))

    def written() -> set[int]:
        return {int(line) for file in rows.iterdir() for line in file.read_text().splitlines()}

    with running_stream(pipeline) as stream:
        stream.wait_until(lambda: written() == {*range(20)}, "twenty rows are written")
        assert stream.drain().status.batches > 0


def leave_notes_ahead(pipeline: LakePipeline, topic: str) -> None:
    """Notes of continuous processing that was killed before it had written the rows, if the newest is one."""
    batches = CheckpointBatches(pipeline.lake.store, str(pipeline.checkpoint))
    committed = batches.last_committed()
    newest = None if committed is None else batches.offsets(committed)
    if committed is None or newest is None or not newest.is_note:
        return
    for ahead in (1, 2, 3):
        ends = json.dumps({topic: {"0": newest.ends["0"][topic]["0"] + 3 * ahead}})
        (pipeline.checkpoint / f"offsets/{committed + ahead}").write_text(f"v1\n\n{ends}")
