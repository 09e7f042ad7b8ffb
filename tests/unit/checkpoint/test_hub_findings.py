"""Findings from a hub's facts, compared with the declaration and the read position."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.declared import declared
from tidemill.checkpoint.doctor.hub import (
    HubFacts,
    HubPartition,
    LossClock,
    ReadSoFar,
    hub_findings,
    loss_clock,
)
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.reading.state_folder import StateFolder
from tidemill.checkpoint.retention.clock import (
    ASSUMED_BROKER_RETENTION,
    SourceRetention,
    assumed_retention,
    clock_findings,
    shortest_of_brokers,
)
from tidemill.spec.project import Pipeline

NOW = datetime(2026, 11, 23, tzinfo=UTC)
HUB = HubFacts(
    datetime(2026, 1, 1, tzinfo=UTC), {"0": HubPartition(10, 100, NOW), "1": HubPartition(0, 50, NOW)}
)
CAPTURE = {"capture": {"path": "captured"}}


def reading(folder: Path, **keys: Any) -> Pipeline:
    source = {
        "namespace": "n",
        "hub": "readings",
        "auth": {"connection_string": "s"},
        "tier": "standard",
        **keys,
    }
    return declared(folder, source={"eventhubs": source}, run={"mode": "stream", "trigger": "10 seconds"})


def read(first: int, second: int, days_ago: float = 0) -> ReadSoFar:
    return ReadSoFar({"readings": {"0": first, "1": second}}, NOW - timedelta(days=days_ago))


def found(pipeline: Pipeline, so_far: ReadSoFar) -> dict[str, Finding]:
    return {finding.finding_id: finding for finding in hub_findings(pipeline, HUB, so_far, NOW)}


def clock(folder: Path, so_far: ReadSoFar, **keys: Any) -> LossClock:
    source = reading(folder, **keys).spec.source.eventhubs
    assert source is not None
    return loss_clock(source, HUB, so_far, NOW)


@pytest.mark.parametrize(
    ("days", "level", "left"), [(1, "ok", 6), (4, "warn", 3), (6, "urgent", 1), (8, "urgent", 0)]
)
def test_a_stream_that_stands_still_has_as_long_as_its_tier_keeps_events(
    tmp_path: Path, days: float, level: str, left: int
) -> None:
    assert clock(tmp_path, read(50, 50, days)) == LossClock(level, timedelta(days=left), False)


@pytest.mark.parametrize(
    ("days", "pace", "level", "left"),
    [
        (4, 0.5, "ok", timedelta(days=6)),
        (6, 0.5, "warn", timedelta(days=2)),
        (6, 0.0, "urgent", timedelta(days=1)),
        (6, 1.0, "warn", None),
        (6.5, 0.9, "warn", timedelta(days=5)),
        (5, 3.0, "ok", None),
        (6, -0.1, "urgent", timedelta(days=1)),
    ],
    ids=[
        "half as fast",
        "half as fast and near",
        "none is read",
        "keeps up",
        "nearly",
        "catches up",
        "a new partition",
    ],
)
def test_a_stream_that_reads_has_as_long_as_it_falls_behind(
    tmp_path: Path, days: float, pace: float, level: str, left: timedelta | None
) -> None:
    assert clock(tmp_path, replace(read(50, 50, days), pace=pace)) == LossClock(level, left, False)


def test_what_is_read_or_kept_for_longer_is_in_no_danger(tmp_path: Path) -> None:
    assert clock(tmp_path, read(100, 50, 30)) == LossClock("ok", None, False)
    assert clock(tmp_path, read(50, 50, 30), tier="premium") == LossClock("ok", timedelta(days=60), False)
    assert clock(tmp_path, read(50, 50, 30), tier=None) == LossClock("ok", None, False)
    assert clock(tmp_path, read(50, 50, 1), retention="1 day").level == "urgent"


def test_what_has_left_unread_is_lost_unless_it_was_archived(tmp_path: Path) -> None:
    lost = found(reading(tmp_path), read(5, 50))["TIDE-HUB-023"]
    assert (lost.severity, lost.facts["level"], lost.facts["covered_by_capture"]) == ("error", "lost", False)
    covered = found(reading(tmp_path, **CAPTURE), read(5, 50))["TIDE-HUB-023"]
    assert (covered.severity, covered.facts["covered_by_capture"]) == ("warning", True)
    assert "tidemill backfill plan" in covered.fix


def test_events_wait_wherever_the_pipeline_has_not_read(tmp_path: Path) -> None:
    assert HUB.lag({"readings": {"0": 60, "1": 50}}, "readings") == 40
    # A partition that is new, and one whose oldest events have left.
    assert HUB.lag({"readings": {"0": 5}}, "readings") == 90 + 50


@pytest.mark.parametrize("so_far", [read(101, 50), read(50, 50, days_ago=400)])
def test_a_hub_that_was_made_again_is_told_by_its_age_or_its_end(tmp_path: Path, so_far: ReadSoFar) -> None:
    assert found(reading(tmp_path), so_far)["TIDE-HUB-020"].severity == "error"


def test_a_hub_is_measured_by_its_throughput_units(tmp_path: Path) -> None:
    many = reading(tmp_path, throughput_units=4, max_offsets_per_batch=200_000)
    assert found(many, read(100, 50))["TIDE-HUB-021"].facts["partitions"] == 2
    assert found(many, read(100, 50))["TIDE-HUB-022"].facts["events_per_trigger"] == 163_840
    assert found(reading(tmp_path, throughput_units=2, max_offsets_per_batch=80_000), read(100, 50)) == {}


IOT_HUB = {"namespace": "plant", "hub": "readings", "auth": {"connection_string": "s"}}


@pytest.mark.parametrize(
    ("kind", "keys", "says"),
    [
        ("eventhubs", {"tier": "standard", "retention": "30 days"}, "tier standard keeps at most 1 week"),
        ("eventhubs", {"tier": "premium", "retention": "91 days"}, "tier premium keeps at most 90 days"),
        ("eventhubs", {"retention": "8 days"}, "counts as Standard.*declare `tier`"),
        ("eventhubs", {"tier": "standard", "retention": "59 minutes"}, "at least 1 hour"),
        ("iothub", {"retention": "8 days"}, "built-in endpoint of an IoT hub keeps at most 7 days"),
        ("iothub", {"retention": "12 hours"}, "at least 1 day"),
        ("iothub", {"tier": "standard", "retention": "30 days"}, "tier standard keeps at most 1 week"),
        (
            "iothub",
            {"namespace": "iothub-ns-plant-1-a", "tier": "premium"},
            "the built-in endpoint .* has none",
        ),
    ],
)
def test_a_retention_that_the_service_does_not_offer_is_refused(
    tmp_path: Path, kind: str, keys: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        declared(tmp_path, source={kind: {**IOT_HUB, **keys}})


@pytest.mark.parametrize(
    ("kind", "keys", "days"),
    [
        ("eventhubs", {}, None),
        ("eventhubs", {"retention": "7 days"}, 7),
        ("eventhubs", {"tier": "premium", "retention": "30 days"}, 30),
        ("eventhubs", {"tier": "dedicated"}, 90),
        ("iothub", {}, 7),
        ("iothub", {"retention": "1 day"}, 1),
        ("iothub", {"tier": "premium", "retention": "30 days"}, 30),
    ],
)
def test_the_clock_counts_what_is_declared_and_the_service_keeps(
    tmp_path: Path, kind: str, keys: dict[str, Any], days: int | None
) -> None:
    spec = declared(tmp_path, source={kind: {**IOT_HUB, **keys}}).spec
    hub = spec.source.event_hub
    assert hub is not None
    assert hub.kept == (None if days is None else timedelta(days=days))
    assert assumed_retention(spec).keeps == (hub.kept or ASSUMED_BROKER_RETENTION)


@pytest.mark.parametrize(
    ("kind", "keys", "answer", "counts"),
    [
        ("eventhubs", {"tier": "standard"}, 30, 7),
        ("eventhubs", {"tier": "standard"}, 1, 1),
        ("eventhubs", {"tier": "standard"}, None, None),
        ("eventhubs", {"tier": "premium"}, 30, 30),
        ("eventhubs", {}, 30, 30),
        ("iothub", {}, 30, 7),
    ],
)
def test_an_answer_counts_as_far_as_the_service_can_keep_it(
    tmp_path: Path, kind: str, keys: dict[str, Any], answer: int | None, counts: int | None
) -> None:
    def days(number: int | None) -> timedelta | None:
        return None if number is None else timedelta(days=number)

    pipeline = declared(tmp_path, source={kind: {**IOT_HUB, **keys}})
    found = shortest_of_brokers(
        pipeline, lambda _: SourceRetention("retention.ms", days(answer), certain=True)
    )
    assert found is not None
    assert found.keeps == days(counts)


def test_the_basic_tier_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="no Kafka endpoint"):
        reading(tmp_path, tier="basic")


@pytest.mark.parametrize(("covered", "severity"), [(False, "error"), (True, "warning")])
def test_the_doctor_counts_an_archive_as_cover_of_a_pipeline_that_stands_still(
    covered: bool, severity: str
) -> None:
    folder = StateFolder("readings", last_batch_at=NOW - timedelta(days=8))
    source = SourceRetention("topic readings", timedelta(days=7), certain=True, covered=covered)
    (finding,) = clock_findings(folder, source, NOW)
    assert (finding.finding_id, finding.severity) == ("TIDE-CKPT-057", severity)
    assert finding.facts.get("covered_by_capture", False) == covered
    assert ("backfill" in finding.fix) == covered
