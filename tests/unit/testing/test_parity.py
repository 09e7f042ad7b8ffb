"""Which splits are fair, and that the smallest one that fails is found."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.conf_project import ConfProject
from tidemill import testing
from tidemill.errors import UsageError
from tidemill.testing.parity import Split, explain, possible_cuts, smallest_failure, time_of

START = datetime(2024, 1, 1, tzinfo=UTC)


def minutes(*numbers: int | None) -> list[datetime | None]:
    return [None if number is None else START + timedelta(minutes=number) for number in numbers]


def test_batches_are_the_rows_between_cuts() -> None:
    assert Split().batches(3) == [[0, 1, 2]]
    assert Split((1, 3)).batches(5) == [[0], [1, 2], [3, 4]]


def test_a_shuffled_batch_has_the_same_rows_in_another_order_each_time_the_same() -> None:
    batches = Split((10,), shuffle=7).batches(30)
    assert batches == Split((10,), shuffle=7).batches(30)
    assert [sorted(batch) for batch in batches] == Split((10,)).batches(30)
    assert batches != Split((10,)).batches(30)


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
    assert possible_cuts(times, timedelta(minutes=10)) == cuts


def test_a_time_without_a_zone_is_taken_as_utc() -> None:
    assert time_of("2024-01-01T00:00:00") == time_of(START) == time_of("2024-01-01T01:00:00+01:00")
    with pytest.raises(UsageError) as refused:
        time_of("soon")
    assert refused.value.error_id == "TIDE-TEST-006"


@pytest.mark.parametrize("guilty", [7, 13])
def test_the_smallest_split_that_fails_is_found(guilty: int) -> None:
    tried: list[Split] = []

    def difference(split: Split) -> str:
        tried.append(split)
        batches = split.batches(20)
        return "parted" if not any({guilty - 1, guilty} <= set(batch) for batch in batches) else ""

    assert smallest_failure(difference, range(1, 20), splits=60) == (Split((guilty,)), "parted")
    assert len(tried) == len(set(tried)) <= 60 + 16


def test_an_order_that_matters_is_found_without_a_cut() -> None:
    def difference(split: Split) -> str:
        return "turned" if split.batches(2) != Split(split.cuts).batches(2) else ""

    found = smallest_failure(difference, [], splits=10)
    assert found is not None
    assert found[0].cuts == ()
    assert "each batch shuffled (seed " in str(found[0])


def test_as_many_splits_are_tried_as_asked_for_and_the_same_ones_again() -> None:
    def tried() -> list[Split]:
        seen: list[Split] = []
        assert smallest_failure(lambda split: seen.append(split) or "", range(1, 50), splits=5) is None  # type: ignore[func-returns-value]
        return seen

    first = tried()
    assert 4 <= len(first) <= 5
    assert Split() not in first
    assert tried() == first


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
        smallest_failure(lambda _split: "", [1], 1)
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
    assert refused.value.facts == {"pipeline": "orders", "rows": 1, "sources": 1}
