"""Tests of copy progress in task logs."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tidemill.storage.advance import Advance, Work
from tidemill_airflow.advance_log import AdvanceLog

SIZE = 10**6


def lines_of(seconds_each: float, work: Callable[[AdvanceLog], None]) -> list[str]:
    """Return the lines that are logged if each look at the clock is `seconds_each` later."""
    lines: list[str] = []
    clock = itertools.count(0, seconds_each).__next__
    work(AdvanceLog(lines.append, clock))
    return lines


def copy(log: AdvanceLog, files: int, what: str = "orders: checkpoint") -> None:
    for _ in Work(what, files, log.tell).counted(range(files), lambda _: SIZE):
        pass


def test_work_that_takes_long_has_lines_and_one_at_its_end() -> None:
    assert lines_of(4, lambda log: copy(log, 10)) == [
        f"orders: checkpoint: {done} of 10 files, {done}.0 MB" for done in (3, 6, 9, 10)
    ]


@pytest.mark.parametrize("files", [0, 2, 50])
def test_work_that_is_done_at_once_has_none(files: int) -> None:
    assert lines_of(0.01, lambda log: copy(log, files)) == []


def test_a_step_of_which_nothing_is_counted_is_told_when_it_begins() -> None:
    assert lines_of(4, lambda log: log.tell(Advance("12 small files are put together"))) == [
        "12 small files are put together"
    ]


def test_a_copy_is_as_old_as_its_first_file() -> None:
    lines: list[str] = []
    clock = itertools.chain([0], itertools.count(60, 0.01)).__next__
    copy(AdvanceLog(lines.append, clock), 50)
    assert lines == []


def test_the_end_of_other_work_is_not_written_for_that_before() -> None:
    def two(log: AdvanceLog) -> None:
        copy(log, 5)
        copy(log, 2, "orders: table")

    assert lines_of(4, two) == [f"orders: checkpoint: {done} of 5 files, {done}.0 MB" for done in (3, 5)]
