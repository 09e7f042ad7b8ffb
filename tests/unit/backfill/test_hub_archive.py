"""Plans of a hub with an archive: real files, and a broker that is a table of numbers."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.capture_files import CaptureFolder, Event
from tests.support.declared import declared
from tests.support.paper_broker import PaperBroker
from tidemill.backfill.bounds import parse_bounds
from tidemill.backfill.plan import BackfillPlan, load_plan
from tidemill.backfill.planning import plan_backfill
from tidemill.backfill.still_holds import records_there
from tidemill.errors import DataError, UsageError
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

START = datetime(2026, 3, 1, tzinfo=UTC)
EVERYTHING = ("2026-01-01", "2027-01-01")


def at(hours: int) -> datetime:
    return START + timedelta(hours=hours)


class Archived:
    """A hub that took an event each hour; partition 0 has 200, and keeps the newest 40."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", "Endpoint=sb://x/;SharedAccessKey=y")
        self.folder = folder
        (folder / "conf/pipelines").mkdir(parents=True)
        self.broker = PaperBroker({"readings": {0: (160, 200)}}).stand_in(patch)
        self.archive = CaptureFolder(folder / "data/captured", "plant-north", "readings")
        self.store = Store(str(folder / "data"))

    def file(self, first: int, end: int, partition: int = 0, after: int = 0) -> Path:
        """Return a file of these events, whose window begins with them, or hours after."""
        return self.archive.write(partition, at(first + after), [Event(n, at(n)) for n in range(first, end)])

    def files(self, *edges: int) -> list[Path]:
        return [self.file(first, end) for first, end in itertools.pairwise(edges)]

    @property
    def pipeline(self) -> Pipeline:
        source = {
            "namespace": "plant-north",
            "hub": "readings",
            "auth": {"connection_string": "hub-connection"},
        }
        return declared(
            self.folder,
            environment={"root": str(self.folder / "data")},
            source={"eventhubs": {**source, "capture": {"path": "captured"}}},
        )

    def plan(self, *bounds: str | None) -> BackfillPlan:
        return plan_backfill(self.store, self.pipeline, parse_bounds(*bounds), lambda: None)

    def refusal(self, *bounds: str | None) -> UsageError | DataError:
        with pytest.raises((UsageError, DataError)) as refused:
            self.plan(*bounds)
        return refused.value


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archived:
    return Archived(tmp_path, monkeypatch)


def slices(plan: BackfillPlan) -> list[tuple[int, int]]:
    assert plan.archive is not None
    return [(each.first, each.end) for each in plan.archive.slices]


def of_offsets(start: int, end: int) -> tuple[Any, ...]:
    return None, None, f'{{"readings": {{"0": {start}}}}}', f'{{"readings": {{"0": {end}}}}}'


def test_all_of_the_past_is_read_from_both_and_kept_in_the_plan(hub: Archived) -> None:
    hub.files(0, 90, 170)
    plan = hub.plan(*EVERYTHING)
    assert (plan.start_offsets, plan.end_offsets) == ({"readings": {"0": 0}}, {"readings": {"0": 200}})
    assert slices(plan) == [(0, 90), (90, 170)]
    assert (
        "  seam      partition 0: archive 0 to 170 (2 files); hub 170 to 200; in both: 10; never written: 200"
        in (plan.lines())
    )
    assert load_plan(hub.store, hub.pipeline.layout, "orders", plan.digest) == plan


def test_of_a_range_of_time_files_long_before_it_are_not_opened(hub: Archived) -> None:
    """Events may say that they happened a day after they were enqueued."""
    damaged, *_ = hub.files(0, 30, 60, 90, 120, 170)
    damaged.write_bytes(b"damaged")
    assert slices(hub.plan(at(100).isoformat(), at(110).isoformat())) == [(60, 90), (90, 120), (120, 170)]
    assert hub.refusal(*EVERYTHING).error_id == "TIDE-HUB-001"


def test_files_that_came_late_and_in_any_order_are_found(hub: Archived) -> None:
    hub.files(60, 90, 120)
    hub.file(30, 60, after=150)
    hub.file(120, 170, after=-100)
    assert slices(hub.plan(at(90).isoformat(), at(110).isoformat())) == [(60, 90), (90, 120), (120, 170)]


def test_a_range_of_offsets_is_read_where_it_lies(hub: Archived) -> None:
    hub.files(0, 60, 90, 170)
    assert slices(hub.plan(*of_offsets(70, 95))) == [(70, 90), (90, 95)]
    assert slices(hub.plan(*of_offsets(180, 190))) == []
    hub.file(0, 60).unlink()
    assert hub.refusal(*of_offsets(50, 95)).error_id == "TIDE-BACK-008"


def test_a_lost_file_is_a_gap_that_is_refused_with_its_numbers(hub: Archived) -> None:
    _, lost, _ = hub.files(0, 60, 90, 150)
    assert hub.refusal(*EVERYTHING).facts["partition_0"] == "150-159"
    lost.unlink()
    refusal = hub.refusal(*EVERYTHING)
    assert (refusal.error_id, refusal.facts["partition_0"]) == ("TIDE-HUB-004", "60-89, 150-159")


def test_a_partition_that_the_hub_has_got_since_is_read_from_the_hub(hub: Archived) -> None:
    hub.files(0, 170)
    hub.broker.topics["readings"][1] = (0, 5)
    plan = hub.plan(*EVERYTHING)
    assert plan.archive is not None
    assert plan.archive.join == {"readings": {"0": 170, "1": 0}}
    hub.file(0, 5, partition=2)
    assert hub.refusal(*EVERYTHING).error_id == "TIDE-HUB-003"


@pytest.mark.parametrize(("number", "hours"), [(0, 500), (60, 10), (199, 3)])
def test_numbers_that_do_not_rise_with_the_time_are_of_two_hubs(
    hub: Archived, number: int, hours: int
) -> None:
    hub.files(0, 60)
    hub.files(70, 170)
    hub.archive.write(0, at(hours), [Event(number, at(hours))])
    assert hub.refusal(*EVERYTHING).error_id == "TIDE-HUB-003"


@pytest.mark.parametrize(("minutes_back", "is_taken"), [(4, True), (6, False)])
def test_a_clock_of_the_hub_that_goes_back_a_little_is_no_other_hub(
    hub: Archived, minutes_back: int, is_taken: bool
) -> None:
    """Another node may take over a partition, so numbers and not times show where archive and hub meet."""
    hub.files(0, 160)
    back = at(159) - timedelta(minutes=minutes_back)
    hub.archive.write(0, at(160), [Event(number, back) for number in range(160, 170)])
    if is_taken:
        plan = hub.plan(*EVERYTHING)
        assert plan.archive is not None
        assert plan.archive.join == {"readings": {"0": 170}}
        assert slices(plan) == [(0, 160), (160, 170)]
    else:
        assert hub.refusal(*EVERYTHING).error_id == "TIDE-HUB-003"


def test_a_hub_that_loses_its_part_meanwhile_makes_the_plan_void(hub: Archived) -> None:
    hub.files(0, 170)
    plan = hub.plan(*EVERYTHING)
    hub.broker.topics["readings"][0] = (170, 200)
    assert records_there(hub.pipeline, plan) == plan.start_offsets
    hub.broker.topics["readings"][0] = (171, 200)
    with pytest.raises(UsageError) as void:
        records_there(hub.pipeline, plan)
    assert (void.value.error_id, void.value.facts["partition"]) == ("TIDE-BACK-016", "readings-0")
