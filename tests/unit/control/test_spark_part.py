"""Parts of an operation that need Spark: run once, found again, and their errors are the operation's own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.fake_part import fake_part_command
from tests.support.forked_python import forked
from tests.support.small_project import SmallProject
from tidemill.control.driver_command import DriverRun
from tidemill.control.local.local_runtime import LocalRuntime
from tidemill.control.plane import ControlPlane
from tidemill.control.spark_part import begin_part, run_part
from tidemill.errors import GateRefusedError, UnavailableError
from tidemill.spec.project import Pipeline, resolve_pipeline
from tidemill.storage.store import Store

PART = "table_restore"


class Place:
    """A project whose parts are fakes; any number of command lines may be at work in it."""

    def __init__(self, project: SmallProject) -> None:
        self.project = project
        project.declare("orders")

    @property
    def pipeline(self) -> Pipeline:
        return resolve_pipeline(self.project.environment, "orders")

    def plane(self) -> ControlPlane:
        environment = self.project.environment
        runtime = LocalRuntime(environment, fake_part_command, self.project.variables)
        return ControlPlane(environment, Store(environment.layout.root), runtime)

    def run(self, *arguments: str) -> Any:
        return run_part(self.plane(), self.pipeline, PART, arguments)

    @property
    def runs(self) -> list[str]:
        file = self.project.folder / "behaviour" / "part.runs"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def place(project: SmallProject) -> Place:
    return Place(project)


def test_a_part_answers(place: Place) -> None:
    assert place.run("--table", "a") == ["--table", "a"]


def test_the_error_of_a_part_is_raised_as_it_was(place: Place) -> None:
    place.project.behave("part", "refuse")
    with pytest.raises(GateRefusedError) as refused:
        place.run()
    error = refused.value
    assert (error.error_id, error.facts, error.runbook) == (
        "TIDE-TEST-002",
        {"table": "silver/orders"},
        "rewind",
    )


def test_what_was_done_is_not_done_again_and_what_failed_is(place: Place) -> None:
    place.project.behave("part", "refuse")
    with pytest.raises(GateRefusedError):
        place.run("--table", "a")
    place.project.behave("part", "answer")
    assert place.run("--table", "a") == place.run("--table", "a")
    assert len(place.runs) == 2
    assert len({*place.runs}) == 1
    place.run("--table", "b")
    assert len({*place.runs}) == 2


def test_a_part_that_leaves_nothing_is_told_with_the_end_of_its_log(place: Place) -> None:
    place.project.behave("part", "die")
    with pytest.raises(UnavailableError) as failed:
        place.run()
    assert failed.value.error_id == "TIDE-CKPT-077"
    assert "no Java here" in str(failed.value.facts["said"])


# Program that does the same as a command line; a test kills it.
COMMAND_LINE = """
import sys
from pathlib import Path
from tests.support.small_project import SmallProject
from tests.unit.control.test_spark_part import Place
print(Place(SmallProject(Path(sys.argv[1]))).run("--table", "a"))
"""


def test_a_command_line_that_was_killed_finds_its_part_again(place: Place) -> None:
    place.project.hold_back("part")
    command = [sys.executable, "-c", COMMAND_LINE, str(place.project.folder)]
    killed = forked(command, env=place.project.variables)
    eventually(lambda: place.runs, "the part runs")
    killed.kill()
    said = place.project.folder / "said"
    with said.open("w") as stdout:
        next_one = forked(command, env=place.project.variables, stdout=stdout)
    place.project.let_go("part")
    assert next_one.wait(60) == 0
    assert said.read_text().strip() == "['--table', 'a']"
    assert len(place.runs) == 1


def test_a_part_that_failed_is_not_begun_again_at_once(place: Place) -> None:
    place.project.behave("part", "refuse")
    begin_part(place.plane(), place.pipeline, PART, [])
    eventually(lambda: place.plane().running("orders", "verb") is None, "the part ends")
    with pytest.raises(GateRefusedError):
        begin_part(place.plane(), place.pipeline, PART, [])
    assert len(place.runs) == 1


def test_another_part_of_the_pipeline_is_waited_for_by_its_own_verb(place: Place) -> None:
    place.project.hold_back("part")
    plane = place.plane()
    plane.runtime.start(DriverRun("orders", "verb", "repartition-1", (), "repartition"), "d1")
    with pytest.raises(UnavailableError) as refused:
        place.run()
    assert refused.value.error_id == "TIDE-CTRL-031"
    assert refused.value.facts["run_id"] == "repartition-1"
    place.project.let_go("part")
    eventually(lambda: plane.running("orders", "verb") is None, "the other part ends")
    assert place.run() == []


def test_a_part_runs_beside_neither_stream_nor_backfill_slots(place: Place) -> None:
    place.project.hold_back("part")
    plane = place.plane()
    plane.runtime.start(DriverRun("orders", "verb", "part-1", (), PART), "d1")
    assert plane.held_pipelines() == []
    assert plane.running("orders") is None
    assert plane.running("orders", "backfill") is None
    place.project.let_go("part")


def test_where_there_is_no_spark_a_check_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> object:
        return None if name == "pyspark" else real(name)

    real: Callable[[str], object] = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(UnavailableError) as refused:
        place.plane().runtime.check(DriverRun("orders", "verb", "part-1", (), PART))
    assert refused.value.error_id == "TIDE-CTRL-030"
