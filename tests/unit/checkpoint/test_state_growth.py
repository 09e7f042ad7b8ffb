"""State that only grows is found from the sizes in its snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.clinic import Clinic
from tests.support.conf_project import ConfProject
from tests.support.declared import declared
from tests.support.grown_state import write_grown_state
from tidemill.checkpoint.doctor.state_growth import TREND_BATCHES, StateTrend, cure_of, read_trend
from tidemill.checkpoint.reading.state_folder import read_state_folder

MB = 2**20


@pytest.mark.parametrize(
    ("last_batch", "sizes", "grows"),
    [
        (TREND_BATCHES, (50 * MB, 80 * MB, 120 * MB), True),
        (TREND_BATCHES - 1, (50 * MB, 80 * MB, 120 * MB), False),
        (TREND_BATCHES, (80 * MB, 90 * MB, 120 * MB), False),
        (TREND_BATCHES, (50 * MB, 130 * MB, 120 * MB), False),
        (TREND_BATCHES, (1 * MB, 2 * MB, 4 * MB), False),
        (TREND_BATCHES, (0, 80 * MB, 120 * MB), True),
    ],
    ids=["grows", "too few batches", "not much", "fell again", "too small to matter", "from nothing"],
)
def test_what_counts_as_growth(last_batch: int, sizes: tuple[int, int, int], grows: bool) -> None:
    assert StateTrend(0, last_batch, sizes).only_grows is grows


def test_the_sizes_of_all_partitions_are_added_at_the_first_the_middle_and_the_last_snapshot(
    tmp_path: Path,
) -> None:
    clinic = Clinic(ConfProject(tmp_path))
    checkpoint = clinic.healthy()
    write_grown_state(checkpoint)
    layout = clinic.project.load().layout
    trend = read_trend(clinic.store, read_state_folder(clinic.store, layout, "orders"))
    assert trend is not None
    assert (trend.first_batch, trend.last_batch) == (10, 60)
    assert [round(size / MB) for size in trend.sizes] == [20, 80, 120]
    assert clinic.finding("TIDE-CKPT-055").severity == "warning"


def test_growth_that_is_accepted_is_a_note(tmp_path: Path) -> None:
    clinic = Clinic(ConfProject(tmp_path))
    write_grown_state(clinic.healthy(more="run: {unbounded_state: accepted}\n"))
    found = clinic.finding("TIDE-CKPT-055")
    assert (found.severity, found.facts["a_batch"]) == ("note", 2 * MB)


def test_a_checkpoint_without_state_has_no_trend(tmp_path: Path) -> None:
    clinic = Clinic(ConfProject(tmp_path))
    clinic.healthy()
    assert (
        read_trend(clinic.store, read_state_folder(clinic.store, clinic.project.load().layout, "orders"))
        is None
    )


TIMED = {"event_time": {"column": "at", "watermark": "2 days"}}
ORDERS = {"kafka": {"topic": "orders"}}
TWO = {
    "source": None,
    "transform": "a:b",
    "sources": {"orders": {**ORDERS, **TIMED}, "shops": {"kafka": {"topic": "shops"}}},
}


@pytest.mark.parametrize(
    ("keys", "operators", "moves", "watermark", "problem", "fix"),
    [
        ({}, ["dedupe"], False, "none", "there is no watermark, so", "declare `event_time: {column"),
        ({}, [], False, "none", "there is no watermark, so", "declare `event_time: {column"),
        ({}, ["dedupe"], True, "the transform's", "nothing seems to clear it", "shorten its `withWatermark`"),
        (
            TIMED,
            ["stateStoreSave"],
            True,
            "2 days",
            "nothing seems",
            "shorten `event_time.watermark` (2 days)",
        ),
        (TIMED, [], False, "2 days", "nothing seems", "`event_time.watermark` (2 days)"),
        (
            TWO,
            ["symmetricHashJoin"],
            False,
            "orders: 2 days, shops: none",
            "there is no watermark of the source shops",
            "declare `event_time: {column: …, watermark: …}` of the source shops",
        ),
        ({}, ["transformWithStateExec"], False, "none", "what its transform keeps", "`ttl_duration_ms`"),
        (
            {"run": {"unbounded_state": "accepted"}},
            ["dedupe"],
            False,
            "none",
            "as `unbounded_state: accepted` allows",
            "choose a larger `run.size` in time",
        ),
        (
            TIMED,
            ["transformWithStateExec", "dedupe"],
            True,
            "2 days",
            "nothing seems",
            "`event_time.watermark`",
        ),
    ],
    ids=[
        "no watermark",
        "operators that are not known",
        "a watermark of the transform's",
        "a watermark that is long",
        "a watermark that has not moved yet",
        "one stream of two without",
        "state of the transform's own",
        "growth that is accepted",
        "state of both kinds",
    ],
)
def test_the_cure_is_the_line_of_conf_that_bounds_this_state(  # noqa: PLR0913  # one row of the table
    tmp_path: Path,
    keys: dict[str, Any],
    operators: list[str],
    moves: bool,
    watermark: str,
    problem: str,
    fix: str,
) -> None:
    cure = cure_of(declared(tmp_path, **keys).spec, operators, "orders", moves=moves)
    assert cure.watermark == watermark
    assert problem in cure.problem
    assert fix in cure.fix
