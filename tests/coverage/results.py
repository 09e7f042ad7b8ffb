"""The newest result of each test, from the files that pytest writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from tests.coverage.rows import REPOSITORY

# Folder into which `make test` and the targets of the other tiers each write a separate file.
RESULTS = REPOSITORY / ".cache/results"


@dataclass(frozen=True)
class Result:
    """Result of one test with all its cases.

    Args:
        cases: Number of cases that ran.
        failed: Number of cases that did not pass, including skipped ones.
        ran_at: Time when the run ended.
    """

    cases: int
    failed: int
    ran_at: datetime


def read_results(folder: Path = RESULTS) -> dict[str, Result]:
    """Return the newest result of each test, by node id without parameters."""
    found: dict[str, Result] = {}
    for file in sorted(folder.glob("*.xml"), key=lambda one: one.stat().st_mtime):
        found.update(_of_file(file))
    return found


def _of_file(file: Path) -> Mapping[str, Result]:
    ran_at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    cases: dict[str, list[bool]] = defaultdict(list)
    for case in ElementTree.parse(file).iter("testcase"):
        name = case.get("name", "").partition("[")[0]
        path = case.get("classname", "").replace(".", "/")
        passed = not any(child.tag in ("failure", "error", "skipped") for child in case)
        cases[f"{path}.py::{name}"].append(passed)
    return {test: Result(len(passed), passed.count(False), ran_at) for test, passed in cases.items()}
