"""Progress lines of a long test run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.coverage.rows import REPOSITORY
from tests.support.progress import TYPICAL_SECONDS, remaining_seconds, seconds_of

A, B, C = "tests/unit/test_a.py::test_a", "tests/unit/test_a.py::test_b", "tests/spark/test_c.py::test_c"


@pytest.mark.parametrize(
    ("known", "ended", "expected"),
    [
        ({B: 3.0, C: 40.0}, {A: 1.0}, 43.0),
        ({C: 40.0}, {A: 1.0}, 41.0),
        ({}, {A: 1.0}, 1.0 + TYPICAL_SECONDS["tests/spark"]),
        ({}, {}, TYPICAL_SECONDS["tests/unit"] + TYPICAL_SECONDS["tests/spark"]),
    ],
    ids=["both known", "as its tier", "another tier", "nothing known"],
)
def test_the_remaining_time_counts_known_tests_first(
    known: dict[str, float], ended: dict[str, float], expected: float
) -> None:
    assert remaining_seconds([B, C], known, ended, processes=1) == expected
    assert remaining_seconds([B, C], known, ended, processes=2) == expected / 2


def test_a_torn_file_of_results_is_ignored(tmp_path: Path) -> None:
    case = '<testcase classname="tests.unit.test_a" name="test_a" time="2.5"/>'
    (tmp_path / "whole.xml").write_text(f"<testsuites>{case}</testsuites>")
    (tmp_path / "torn.xml").write_text(f"<testsuites>{case}")
    assert seconds_of(tmp_path) == {A: 2.5}


def test_a_run_prints_its_progress(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support import progress\n"
        "progress.SECONDS_BETWEEN_LINES = 0\n"
        "def pytest_configure(config): config.pluginmanager.register(progress.Progress(config))\n"
    )
    (tmp_path / "test_two.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True)
    assert "50% of the tests in 0:00, about 0:00 left" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1].startswith("2 passed in")
