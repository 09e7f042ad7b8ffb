"""Failing records are found by running parts: exactly, in few runs, and never by inference alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.engine.failing_records import (
    NotOfOneRecordError,
    Stretch,
    failing_places,
    part_of,
    stretches_of,
)


class Runs:
    """Parts that were run; those fail that hold one of the bad places."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.made: list[tuple[int, int]] = []

    def __call__(self, start: int, stop: int) -> bool:
        self.made.append((start, stop))
        return any(start <= place < stop for place in self.bad)


@given(
    st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=5)))
)
def test_each_bad_record_is_found_and_was_run_by_itself(range_: tuple[int, set[int]]) -> None:
    count, bad = range_
    runs = Runs(bad)
    assert failing_places(count, runs, len(bad) + 1) == sorted(bad)
    assert all((place, place + 1) in runs.made for place in bad)


def test_a_record_among_two_thousand_takes_as_many_runs_as_it_can_be_halved() -> None:
    runs = Runs({1_402})
    assert failing_places(2_000, runs, 1) == [1_402]
    assert len(runs.made) <= 1 + 11 + 1


def test_no_more_are_looked_for_than_asked() -> None:
    assert failing_places(100, Runs(set(range(100))), 3) == [0, 1, 2]


def test_what_fails_by_chance_is_blamed_on_no_record() -> None:
    answers = iter([True, True, False, False])
    with pytest.raises(NotOfOneRecordError):
        failing_places(4, lambda *_: next(answers, False), 1)


def test_what_fails_together_only_is_blamed_on_no_record() -> None:
    with pytest.raises(NotOfOneRecordError):
        failing_places(8, lambda start, stop: stop - start > 1, 1)


def test_parts_of_a_range_of_offsets() -> None:
    stretches = stretches_of({"a": {"0": 5, "1": 7}}, {"a": {"1": 7, "0": 8, "10": 2, "2": 1}})
    # Nothing of partition 1; the others are new.
    assert stretches == [Stretch("a", 0, 5, 8), Stretch("a", 2, 0, 1), Stretch("a", 10, 0, 2)]
    assert part_of(stretches, 0, 6) == stretches
    assert part_of(stretches, 2, 5) == [Stretch("a", 0, 7, 8), Stretch("a", 2, 0, 1), Stretch("a", 10, 0, 1)]
    assert part_of(stretches, 3, 4) == [Stretch("a", 2, 0, 1)]
    assert part_of(stretches, 2, 2) == []
