"""`plan --spark`: what an analysis finds in a transform is shown, and a refusal ends with 1."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.fake_driver import ROOT
from tests.support.small_project import SmallProject, small_project
from tidemill.spec.transform_rules import CLOCK, SORT, Rule


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_part:fake_part_command")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    with small_project(tmp_path / "project") as made:
        made.declare("orders")
        yield made


@pytest.fixture
def tidemill(place: SmallProject, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(place.folder, capsys.readouterr)


def found(place: SmallProject, *rules: Rule) -> None:
    """Let the analysis answer so."""
    facts = {"file": "orders.py:7", "reason": "as the test wants"}
    answer = [{**rule.refusal(facts).as_document(), "warns": rule.warns} for rule in rules]
    folder = place.folder / "behaviour"
    folder.mkdir(exist_ok=True)
    (folder / "part.json").write_text(json.dumps(answer))


def test_a_refusal_is_shown_with_line_and_fix_and_ends_with_1(
    tidemill: CommandLine, place: SmallProject
) -> None:
    found(place, SORT, CLOCK)
    assert tidemill("plan", "orders", "--spark") == 1
    for line in ("verdict: refused", "id: TIDE-PLAN-010", "file: orders.py:7", "verdict: warning"):
        assert line in tidemill.out
    assert SORT.instead in tidemill.out
    # Tables may have changed since.
    assert tidemill("plan", "orders", "--spark", "--json") == 1
    checked: list[dict[str, Any]] = json.loads(tidemill.out)["spark_check"]
    assert [one["id"] for one in checked] == [SORT.error_id, CLOCK.error_id]
    assert len((place.folder / "behaviour/part.runs").read_text().splitlines()) == 2


def test_a_warning_is_shown_and_ends_with_0(tidemill: CommandLine, place: SmallProject) -> None:
    found(place, CLOCK)
    assert tidemill.json("plan", "orders", "--spark")["spark_check"][0]["verdict"] == "warning"


def test_a_transform_with_nothing_to_report_says_so(tidemill: CommandLine, place: SmallProject) -> None:
    found(place)
    assert tidemill("plan", "orders", "--spark") == 0
    assert "spark_check: Spark can run it as a stream, and each sink takes its rows" in tidemill.out


def test_an_analysis_that_fails_is_the_error_of_the_command(
    tidemill: CommandLine, place: SmallProject
) -> None:
    place.behave("part", "refuse")
    assert tidemill("plan", "orders", "--spark") == 1
    assert "TIDE-TEST-002" in tidemill.err


def test_without_the_option_no_process_is_started(tidemill: CommandLine, place: SmallProject) -> None:
    assert "spark_check" not in tidemill.json("plan", "orders")
    assert not (place.folder / "behaviour/part.runs").exists()
