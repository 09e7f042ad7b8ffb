"""Processes that end with a demo; `tests/demo` tests its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import ENVIRONMENT, INCREMENTAL, small_project
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun
from tidemill.control.plane import COMMAND_VARIABLE
from tidemill.dev.demo import Demo, stop_demo
from tidemill.spec.project_folder import Project


def test_streams_and_backfills_end_with_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_project(tmp_path / "project") as project:
        monkeypatch.setenv(COMMAND_VARIABLE, "tests.support.fake_driver:fake_driver_command")
        monkeypatch.setenv("PYTHONPATH", project.variables["PYTHONPATH"])
        project.declare("orders")
        project.declare("readings", INCREMENTAL)
        demo = Demo(Project(project.folder))
        demo.folder.mkdir(parents=True)
        demo.environment_file.write_text(ENVIRONMENT)
        plane = demo.plane()
        reconcile_streams(plane)
        project.hold_back("readings")
        plane.runtime.start(DriverRun("readings", "backfill", "run-1", ("--plan", "0123456789ab")), "digest")
        eventually(lambda: plane.running("orders"), "the stream runs")
        assert plane.running("readings", "backfill")

        said: list[str] = []
        assert stop_demo(demo, said.append)

        assert said == ["stream      orders drained", "backfill    readings drained"]
        assert (plane.running("orders"), plane.running("readings", "backfill")) == (None, None)
