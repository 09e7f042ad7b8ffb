"""Backfills past a hub's retention next to a stream: old events from the archive, the rest from the hub."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.capture_files import Event
from tests.support.captured_hub import COUNTS, CapturedHub, at
from tests.support.kafka import CONNECTION_STRING, Kafka
from tests.support.lake import Lake, LakePipeline
from tidemill.errors import UsageError

EVERYTHING = ("2020-01-01", "2030-01-01")


class KilledError(Exception):
    """Stands for SIGKILL at a step."""


@pytest.fixture
def hub(tmp_path: Path, spark: SparkSession, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> CapturedHub:
    monkeypatch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", CONNECTION_STRING)
    return CapturedHub(Lake(tmp_path / "lake", spark), kafka)


def places(hub: CapturedHub, table: str = "silver/readings") -> list[tuple[int, int, int]]:
    rows = hub.lake.rows(table)
    return sorted((row["kafka_partition"], row["kafka_offset"], row["id"]) for row in rows)


def all_of(count: int) -> list[tuple[int, int, int]]:
    """Return this number of events, each once, with its position."""
    return sorted((number % 2, number // 2, number) for number in range(count))


def archived(hub: CapturedHub) -> LakePipeline:
    """Return a pipeline that has read 80 events, archived in overlapping files; the hub lost the oldest."""
    pipeline = hub.pipeline()
    hub.send(80)
    pipeline.run_incremental()
    for first, end in ((0, 12), (10, 25), (25, 35)):
        hub.capture(0, first, end)
    hub.capture(1, 0, 40)
    hub.forget(0, 30)
    hub.forget(1, 38)
    return pipeline


def test_archive_and_hub_are_joined_beside_a_stream_and_each_event_is_there_once(hub: CapturedHub) -> None:
    pipeline = archived(hub)
    hub.lake.spark.sql(f"DELETE FROM delta.`{hub.lake.root}/tables/silver/readings` WHERE id % 3 = 0")
    plan = pipeline.plan(*EVERYTHING)
    assert plan.archive is not None
    assert plan.archive.join == {hub.hub: {"0": 35, "1": 40}}
    assert (
        "  seam      partition 0: archive 0 to 35 (3 files); hub 35 to 40; twice in the archive, "
        in "\n".join(plan.lines())
    )
    hub.send(20)

    def killed(step: str) -> None:
        if step.startswith("replaced"):
            pipeline.run_incremental()
            raise KilledError

    with pytest.raises(KilledError):
        pipeline.apply(plan, killed)
    pipeline.apply(plan)

    assert places(hub) == all_of(100)


@pytest.mark.soak
def test_windows_of_a_forgotten_past_are_those_that_the_stream_has_made(hub: CapturedHub) -> None:
    transform = hub.lake.transform("windows", COUNTS)
    pipeline = hub.pipeline("windows", transform=transform)
    hub.send(80)
    pipeline.run_incremental()
    before = sorted(map(str, hub.lake.rows("silver/windows")))
    assert len(before) == 7
    for partition in (0, 1):
        hub.capture(partition, 0, 40)
        hub.forget(partition, 36)
    hub.lake.spark.sql(f"DELETE FROM delta.`{hub.lake.root}/tables/silver/windows` WHERE true")

    plan = pipeline.plan(at(0), at(70))
    pipeline.apply(plan)

    assert sorted(map(str, hub.lake.rows("silver/windows"))) == before
    assert all(difference.is_none for difference in pipeline.verify(plan).values())


def test_a_gap_between_archive_and_hub_is_named_before_anything_runs(hub: CapturedHub) -> None:
    pipeline = archived(hub)
    sorted(hub.archive.folder.rglob(f"{hub.hub}/0/**/*.avro"))[1].unlink()
    with pytest.raises(UsageError) as refused:
        pipeline.plan(*EVERYTHING)
    assert refused.value.error_id == "TIDE-HUB-004"
    assert refused.value.facts == {"pipeline": "readings", "hub": hub.hub, "partition_0": "12-24"}


@pytest.mark.parametrize(("numbers", "said"), [(range(50), "hub_ends_at"), (range(8), "hub_goes_on_at")])
def test_an_archive_of_a_former_hub_of_the_same_name_is_not_joined(
    hub: CapturedHub, numbers: range, said: str
) -> None:
    """The former hub's sequence numbers also began at 0, and the current hub may have reached them or not."""
    hub.send(20)
    last_year = datetime(2025, 1, 1, tzinfo=UTC)
    hub.archive.write(0, last_year, [Event(number, last_year) for number in numbers])
    with pytest.raises(UsageError) as refused:
        hub.pipeline().plan(*EVERYTHING)
    assert refused.value.error_id == "TIDE-HUB-003"
    assert said in refused.value.facts
