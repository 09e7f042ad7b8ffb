"""How far copies are, in the logs of tasks."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tidemill.storage.advance import Work
from tidemill_airflow.advance_log import AdvanceLog

SIZE = 10**6


def lines_of(seconds_each: float, work: Callable[[AdvanceLog], None]) -> list[str]:
    """What is written of work in which each look at the clock is so much later."""
    lines: list[str] = []
    clock = itertools.count(0, seconds_each).__next__
    work(AdvanceLog(lines.append, clock))
    return lines


def copy(log: AdvanceLog, files: int, what: str = "orders: checkpoint") -> None:
    for _ in Work(what, files, log.tell).counted(range(files), lambda _: SIZE):
        pass


def test_work_that_takes_long_has_lines_and_one_at_its_end() -> None:
    assert lines_of(4, lambda log: copy(log, 10)) == [
        f"orders: checkpoint: {done} of 10 files, {done}.0 MB" for done in (2, 5, 8, 10)
    ]


@pytest.mark.parametrize("files", [0, 1, 50])
def test_work_that_is_done_at_once_has_none(files: int) -> None:
    assert lines_of(0.01, lambda log: copy(log, files)) == []


def test_the_end_of_other_work_is_not_written_for_that_before() -> None:
    def two(log: AdvanceLog) -> None:
        copy(log, 5)
        copy(log, 1, "orders: table")

    assert lines_of(4, two) == [f"orders: checkpoint: {done} of 5 files, {done}.0 MB" for done in (2, 5)]
