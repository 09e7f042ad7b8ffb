"""The same events give the same tables in a stream, an incremental run and a backfill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoints import range_of
from tests.support.iot_lake import (
    EVERYTHING,
    START,
    IotLake,
    accepted,
    closing_event,
    counts_by_window,
    iot_topic,
    send_events,
    take,
)
from tests.support.kafka import Kafka, Record
from tests.support.lake import LakePipeline
from tests.support.openlineage_rules import check_event
from tests.support.running_stream import running_stream
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.dev.iot_events import Event, IotSettings
from tidemill.lineage.replay import events_since

# One event every two seconds for 40 minutes: a batch spans 13 minutes of event time.
COUNT = 1_200
BATCH = 400

WITHIN_WATERMARK = IotSettings(
    start=START,
    seed=4,
    interval=timedelta(seconds=2),
    devices=8,
    late_rate=0.1,
    duplicate_rate=0.05,
    broken_rate=0.02,
)
TOO_LATE = replace(WITHIN_WATERMARK, too_late_rate=0.05)

MakeLake = Callable[[str], IotLake]


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return iot_topic(kafka, partitions=4)


@pytest.fixture
def make_lake(tmp_path: Path, spark: SparkSession, kafka: Kafka, topic: str) -> MakeLake:
    """Yield a separate lake for each mode; all read the same topic."""
    return lambda mode: IotLake(
        tmp_path / mode, spark, kafka.bootstrap_servers, topic, max_offsets_per_batch=BATCH
    )


@pytest.mark.soak
def test_bronze_is_the_same_row_for_row_in_every_mode(kafka: Kafka, topic: str, make_lake: MakeLake) -> None:
    events = take(WITHIN_WATERMARK, COUNT)
    send_events(kafka.bootstrap_servers, topic, events)
    stream, incremental, backfill = make_lake("stream"), make_lake("incremental"), make_lake("backfill")

    with running_stream(stream.bronze) as running:
        running.wait_until(
            lambda: len(stream.bronze_rows()) == len(accepted(events)), "all rows are in bronze"
        )
        streamed = running.drain()
    incremental.bronze.run_incremental()
    backfill.bronze.backfill(*EVERYTHING)

    assert (streamed.status.batch_id or 0) >= 2
    for lake in (stream, incremental):
        sizes = records_by_batch(lake.bronze)
        assert sum(sizes) == COUNT
        assert max(sizes) <= BATCH
    assert stream.bronze_rows() == incremental.bronze_rows() == backfill.bronze_rows()
    rejected = stream.rejected(stream.bronze)
    assert len(rejected) == COUNT - len(accepted(events)) > 10
    assert rejected == incremental.rejected(incremental.bronze) == backfill.rejected(backfill.bronze)
    for lake in (stream, incremental, backfill):
        see_lineage(lake, topic, accepted=len(accepted(events)), rejected=len(rejected))


def see_lineage(lake: IotLake, topic: str, *, accepted: int, rejected: int) -> None:
    """Check that all events together cover each record of the topic once and the rows of both tables."""
    ends: dict[str, int] = {}
    rows: Counter[str] = Counter()
    for event in events_since(lake.lake.store, lake.bronze.resolved, datetime(2024, 1, 1, tzinfo=UTC)):
        (source,) = check_event(event)["inputs"]
        assert (source["namespace"], source["name"]) == (f"kafka://{lake.lake.bootstrap_servers}", topic)
        if event["eventType"] != "RUNNING":
            continue
        offsets = source["inputFacets"]["tidemill_offsets"]
        beginning = dict.fromkeys(offsets["end"], 0)
        assert offsets.get("start", beginning) == (ends or beginning)
        ends = offsets["end"]
        for table in event["outputs"]:
            zone = Path(table["name"]).parent.name
            rows[zone] += table["outputFacets"]["outputStatistics"]["rowCount"]
    assert sum(ends.values()) == accepted + rejected
    assert rows == {"bronze": accepted, "quarantine": rejected}


def test_windows_are_the_same_row_for_row_in_every_mode(
    kafka: Kafka, topic: str, make_lake: MakeLake
) -> None:
    events = take(WITHIN_WATERMARK, COUNT)
    send_events(kafka.bootstrap_servers, topic, [*events, closing_event()])
    stream, incremental, backfill = make_lake("stream"), make_lake("incremental"), make_lake("backfill")
    expected = counts_by_window(events)

    with running_stream(stream.windows) as running:
        running.wait_until(lambda: len(stream.alert_rows()) == len(hot(expected)), "all windows are closed")
        streamed = running.drain()
    counted = incremental.windows.run_incremental()
    backfill.windows.backfill(*EVERYTHING)

    alerts = f"kafka:{topic}_alerts"
    assert counted.status.rows_by_output[alerts] == len(hot(expected))
    assert counted.status.rows_by_output[alerts] == streamed.status.rows_by_output[alerts]
    assert len(kafka.read(f"{topic}_alerts")) == 2 * len(hot(expected))
    assert (streamed.status.batch_id or 0) >= 2
    assert streamed.status.late_rows == 0
    assert stream.counts() == expected
    assert stream.window_rows() == incremental.window_rows() == backfill.window_rows()
    assert stream.alert_rows() == incremental.alert_rows() == backfill.alert_rows()
    assert stream.rejected(stream.windows) == backfill.rejected(backfill.windows)


@pytest.mark.soak
def test_events_behind_the_watermark_are_counted_and_nothing_is_unaccounted_for(
    kafka: Kafka, topic: str, make_lake: MakeLake
) -> None:
    events = take(TOO_LATE, COUNT)
    send_events(kafka.bootstrap_servers, topic, [*events, closing_event()])
    stream, incremental, backfill = make_lake("stream"), make_lake("incremental"), make_lake("backfill")

    with running_stream(stream.windows) as running:
        running.wait_until(lambda: closed_all(stream.windows), "all windows are closed")
        streamed = running.drain()
    counted = incremental.windows.run_incremental()
    backfill.windows.backfill(*EVERYTHING)

    records = kafka.read(topic)
    for lake, reporter in ((stream, streamed), (incremental, counted)):
        replayed = replay(lake.windows, records, [*events, closing_event()])
        assert reporter.status.late_rows == replayed.late > 10
        assert lake.counts() == counts_by_window(replayed.kept)
        # Only the closing event is in a window that is still open.
        written = sum(lake.counts().values())
        assert written + reporter.status.late_rows + replayed.repeated + 1 == len(accepted(events)) + 1
    assert backfill.counts() == counts_by_window(events)


def hot(windows: dict[tuple[str, datetime], int]) -> list[tuple[str, datetime]]:
    """Return windows of the two devices that measure above 100 degrees."""
    return [window for window in windows if window[0] in ("device-0001", "device-0002")]


def closed_all(pipeline: LakePipeline) -> bool:
    """Return True if a batch has run with the watermark of the closing event."""
    batches = checkpoint(pipeline)
    last = batches.last_committed()
    planned = None if last is None else batches.planned(last)
    return planned is not None and (planned.watermark or START) > START + timedelta(days=1)


def checkpoint(pipeline: LakePipeline) -> CheckpointBatches:
    return CheckpointBatches(pipeline.lake.store, str(pipeline.checkpoint))


def records_by_batch(pipeline: LakePipeline) -> list[int]:
    batches = checkpoint(pipeline)
    sizes = []
    for batch_id in range((batches.last_committed() or 0) + 1):
        ((_, start),), ((_, end),) = (document.items() for document in range_of(batches, batch_id))
        sizes.append(sum(offset - start.get(partition, 0) for partition, offset in end.items()))
    return sizes


@dataclass
class Replayed:
    """Expected results of the first stateful operator for each accepted event, batch by batch."""

    late: int
    repeated: int
    kept: list[Event]


def replay(pipeline: LakePipeline, records: list[Record], events: list[Event]) -> Replayed:
    """Replay the batches of the checkpoint.

    Spark drops events of a batch that are not later than the watermark of the batch before.
    """
    by_value = {event.value: event for event in accepted(events)}
    batches, limit = checkpoint(pipeline), datetime.min.replace(tzinfo=UTC)
    result, seen = Replayed(0, 0, []), set()
    for batch_id in range((batches.last_committed() or 0) + 1):
        ((_, start),), ((_, end),) = (document.items() for document in range_of(batches, batch_id))
        for record in records:
            event = by_value.get(record.value)
            partition = str(record.partition)
            if event is None or not start.get(partition, 0) <= record.offset < end[partition]:
                continue
            if event.event_time <= limit:
                result.late += 1
            elif event.event_id in seen:
                result.repeated += 1
            else:
                seen.add(event.event_id)
                result.kept.append(event)
        planned = batches.planned(batch_id)
        limit = (planned and planned.watermark) or limit
    result.kept = [event for event in result.kept if event.event_id != closing_event().event_id]
    return result
