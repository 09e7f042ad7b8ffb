"""Progress of a long test run: each minute, the share that is done, the elapsed and the remaining time.

The remaining time is the sum of the expected times of the tests that have not ended, divided by the number of
processes. A test is expected to take as long as in its latest run on this machine, or else as the tests of
its tier so far, or else as usual in its tier.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.coverage.results import RESULTS

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # xdist has no types

SECONDS_BETWEEN_LINES = 60.0

# Mean seconds of a test, from a run on two cores, for a tier of which nothing is known yet.
TYPICAL_SECONDS = {"tests/unit": 0.1, "tests/airflow": 2.5, "tests/spark": 4.0, "tests/kafka": 10.0}


def seconds_of(folder: Path = RESULTS) -> dict[str, float]:
    """Return the seconds of each test in its latest run, by node id."""
    found: dict[str, float] = {}
    for file in sorted(folder.glob("*.xml"), key=lambda one: one.stat().st_mtime):
        try:
            cases = ElementTree.parse(file).iter("testcase")
        except ElementTree.ParseError:
            # A killed run has left a part of the file.
            continue
        for case in cases:
            path = case.get("classname", "").replace(".", "/")
            found[f"{path}.py::{case.get('name')}"] = float(case.get("time", "0"))
    return found


def remaining_seconds(
    waiting: Iterable[str], known: Mapping[str, float], ended: Mapping[str, float], processes: int
) -> float:
    """Return the time until the last test ends.

    Args:
        waiting: Node ids of the tests that have not ended.
        known: Seconds of tests in earlier runs.
        ended: Seconds of the tests that have ended in this run.
        processes: Number of processes that run tests.
    """
    of_tier: dict[str, list[float]] = defaultdict(list)
    for test, seconds in ended.items():
        of_tier[tier_of(test)].append(seconds)
    means = {tier: fmean(seconds) for tier, seconds in of_tier.items()}
    of_tier_or_typical = TYPICAL_SECONDS | means
    return sum(known.get(test, of_tier_or_typical.get(tier_of(test), 0.0)) for test in waiting) / processes


def tier_of(test: str) -> str:
    """Return the top folders of a test, such as `tests/spark`."""
    return "/".join(test.split("/")[:2])


class Progress:
    """Plugin that prints a line each minute.

    Args:
        config: Configuration of the run.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._begun = self._printed = time.monotonic()
        self._processes = 1
        self._waiting: set[str] = set()
        self._known: Mapping[str, float] | None = None
        self._ended: dict[str, float] = defaultdict(float)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: WorkerController, ids: Sequence[str]) -> None:
        self._processes = len(node.config.option.tx)
        self._expect(ids)

    def _expect(self, ids: Sequence[str]) -> None:
        self._waiting = set(ids)
        if self._known is None:
            self._known = seconds_of()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._ended[report.nodeid] += report.duration
        if report.when == "teardown":
            self._waiting.discard(report.nodeid)
            if time.monotonic() - self._printed > SECONDS_BETWEEN_LINES:
                self._print()

    def _print(self) -> None:
        self._printed = time.monotonic()
        ended = {test: seconds for test, seconds in self._ended.items() if test not in self._waiting}
        left = remaining_seconds(self._waiting, self._known or {}, ended, self._processes)
        share = len(ended) / (len(ended) + len(self._waiting))
        elapsed = minutes(self._printed - self._begun)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        reporter.write_line("")
        reporter.write_line(f"{share:.0%} of the tests in {elapsed}, about {minutes(left)} left")


def minutes(seconds: float) -> str:
    """Return a duration as minutes and seconds, such as `3:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
