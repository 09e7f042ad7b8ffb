"""Fair orders of arrival, and the search for the smallest failing one."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.conf_project import ConfProject
from tidemill import testing
from tidemill.backfill.row_origin import EventWindow
from tidemill.errors import UsageError
from tidemill.sinks.batch_commit import StepDone
from tidemill.testing.arrivals import Arrival, Happened, possible_cuts, time_of
from tidemill.testing.beside import CrashedError, closed_windows, crash_after, started_again
from tidemill.testing.parity import explain
from tidemill.testing.smallest_failure import Choices, smallest_failure

START = datetime(2024, 1, 1, tzinfo=UTC)


def minutes(*numbers: int | None) -> list[datetime | None]:
    return [None if number is None else START + timedelta(minutes=number) for number in numbers]


def test_batches_are_the_rows_between_cuts() -> None:
    assert Arrival().batches(3) == [[0, 1, 2]]
    assert Arrival((1, 3)).batches(5) == [[0], [1, 2], [3, 4]]


def test_a_shuffled_batch_has_the_same_rows_in_another_order_each_time_the_same() -> None:
    batches = Arrival((10,), shuffle=7).batches(30)
    assert batches == Arrival((10,), shuffle=7).batches(30)
    assert [sorted(batch) for batch in batches] == Arrival((10,)).batches(30)
    assert batches != Arrival((10,)).batches(30)


@pytest.mark.parametrize(
    ("times", "cuts"),
    [
        (minutes(0, 5, 20), [1, 2]),
        # Ten minutes behind the newest is not late, eleven is.
        (minutes(0, 20, 10), [1, 2]),
        (minutes(0, 20, 9), [1]),
        (minutes(20, 9, 21), [2]),
        (minutes(None, 20, None, 9, None), [1, 4]),
        (minutes(None, None), [1]),
    ],
)
def test_a_cut_makes_no_row_late(times: list[datetime | None], cuts: list[int]) -> None:
    rows = [Happened("source", at) for at in times]
    assert possible_cuts(rows, {"source": timedelta(minutes=10)}) == cuts
    assert possible_cuts(rows, {}) == list(range(1, len(rows)))


@pytest.mark.parametrize(
    ("rows", "cuts"),
    [
        # No row is late until the other stream has had a row.
        ([("a", 20), ("a", 0), ("b", 30)], [1, 2]),
        # The stream that is behind decides, with its own patience.
        ([("a", 20), ("b", 60), ("a", 9)], [1]),
        ([("a", 20), ("b", 60), ("a", 10)], [1, 2]),
        ([("b", 20), ("a", 60), ("b", 0)], [1, 2]),
        ([("b", None), ("a", 60), ("b", 0)], [1, 2]),
    ],
)
def test_of_several_streams_the_one_that_is_behind_makes_rows_late(
    rows: list[tuple[str, int | None]], cuts: list[int]
) -> None:
    happened = [
        Happened(name, at) for (name, _), at in zip(rows, minutes(*(n for _, n in rows)), strict=True)
    ]
    assert possible_cuts(happened, {"a": timedelta(minutes=10), "b": timedelta(minutes=20)}) == cuts


def test_a_time_without_a_zone_is_taken_as_utc() -> None:
    assert time_of("2024-01-01T00:00:00") == time_of(START) == time_of("2024-01-01T01:00:00+01:00")
    with pytest.raises(UsageError) as refused:
        time_of("soon")
    assert refused.value.error_id == "TIDE-TEST-006"


@pytest.mark.parametrize("guilty", [7, 13])
def test_the_smallest_split_that_fails_is_found(guilty: int) -> None:
    tried: list[Arrival] = []

    def difference(arrival: Arrival) -> str:
        tried.append(arrival)
        batches = arrival.batches(20)
        return "parted" if not any({guilty - 1, guilty} <= set(batch) for batch in batches) else ""

    assert smallest_failure(difference, Choices(range(1, 20), 60)) == (Arrival((guilty,)), "parted")
    assert len(tried) == len(set(tried)) <= 60 + 16


def test_an_order_that_matters_is_found_without_a_cut() -> None:
    def difference(arrival: Arrival) -> str:
        return "turned" if arrival.batches(2) != Arrival(arrival.cuts).batches(2) else ""

    found = smallest_failure(difference, Choices([], 10))
    assert found is not None
    assert found[0].cuts == ()
    assert "each batch shuffled (seed " in str(found[0])


def test_as_many_splits_are_tried_as_asked_for_and_the_same_ones_again() -> None:
    def tried() -> list[Arrival]:
        seen: list[Arrival] = []
        choices = Choices(range(1, 50), 5)
        assert smallest_failure(lambda arrival: seen.append(arrival) or "", choices) is None  # type: ignore[func-returns-value]
        return seen

    first = tried()
    assert 4 <= len(first) <= 5
    assert Arrival() not in first
    assert tried() == first


@pytest.mark.parametrize(
    ("guilty", "found"),
    [
        ("crash", "one batch, each run crashed after step 2 and started again"),
        ("backfill", "one batch, each batch followed by a backfill"),
        ("cuts", "cut before row 5"),
    ],
)
def test_what_happens_meanwhile_is_told_only_if_it_is_to_blame(guilty: str, found: str) -> None:
    tried: list[Arrival] = []

    def difference(arrival: Arrival) -> str:
        tried.append(arrival)
        plain = getattr(Arrival(), guilty)
        return "" if getattr(arrival, guilty) == plain or (guilty, arrival.crash) == ("crash", 1) else "wrong"

    failure = smallest_failure(difference, Choices(range(1, 9), 20, steps=3, backfill=True))
    assert failure is not None
    assert (str(failure[0]), failure[1]) == (found, "wrong")
    # First of all rows come before and behind a crash and a backfill, about as many.
    assert tried[0] == Arrival((5,), crash=2, backfill=True)


def test_a_run_that_crashes_is_started_again_once() -> None:
    steps: list[str] = []

    def run(step_done: StepDone) -> str:
        for step in ("written", "committed"):
            steps.append(step)
            step_done(step)
        return "ended"

    assert started_again(run, crash=1) == "ended"
    assert steps == ["written", "written", "committed"]
    assert started_again(run, crash=3) == started_again(run, crash=0) == "ended"
    assert len(steps) == 7
    with pytest.raises(CrashedError, match="2: committed"):
        run(crash_after(2))


@pytest.mark.parametrize(
    ("closed", "length", "slide", "starts"),
    [
        (10, 5, 5, (0, 10)),
        (9, 5, 5, (0, 5)),
        # Ten-minute windows every five minutes: the one from -5 on also has the first row.
        (10, 10, 5, (-5, 5)),
        (14, 10, 5, (-5, 5)),
        (4, 5, 5, None),
    ],
)
def test_windows_that_are_over_are_computed_again(
    closed: int, length: int, slide: int, starts: tuple[int, int] | None
) -> None:
    window = EventWindow(kind="any", length=timedelta(minutes=length), slide=timedelta(minutes=slide))
    (earliest, until) = (START + timedelta(minutes=minute) for minute in (1, closed))
    found = closed_windows(window, earliest, until)
    assert (found and found.times) == (starts and tuple(START + timedelta(minutes=n) for n in starts))


def test_a_difference_is_told_by_output_with_a_few_rows() -> None:
    one = {"silver/a": Counter({"row 1": 2, "row 2": 1}), "quarantine": Counter[str]()}
    other = {"silver/a": Counter({"row 1": 1, "row 2": 1}), "quarantine": Counter({"late": 9})}
    assert explain(one, one) == ""
    lines = explain(one, other).splitlines()
    assert lines[1:4] == ["  silver/a: 1 rows only in one batch", "    row 1", "  quarantine: 9 rows only so"]
    assert len(lines) == 9


def test_without_hypothesis_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(UsageError) as refused:
        smallest_failure(lambda _arrival: "", Choices([1], 1))
    assert (refused.value.error_id, refused.value.fix) == (
        "TIDE-TEST-008",
        "install tidemill with the extra `testing`",
    )


def test_one_row_cannot_be_split(tmp_path: Path) -> None:
    project = ConfProject(tmp_path / "project")
    with pytest.raises(UsageError) as refused:
        testing.assert_same_result(
            project.folder / "conf/pipelines/orders.yaml",
            [{"id": "a"}],
            tmp_path,
            None,  # type: ignore[arg-type]
        )
    assert refused.value.error_id == "TIDE-TEST-006"
    assert refused.value.facts == {"pipeline": "orders", "rows": 1, "tables": "none"}
