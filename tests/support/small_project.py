"""A project folder with small pipelines that the fake driver runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT, fake_driver_command
from tidemill.control.local.local_runtime import LocalRuntime
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import Slot, StartedDriver
from tidemill.spec.project import Environment, load_environment
from tidemill.spec.project_folder import Project
from tidemill.storage.store import Store

ENVIRONMENT = """
root: .data
kafka: {bootstrap_servers: "localhost:1"}
"""

STREAM = """
description: Rows made from the clock.
owner: tests
source: {rate: {}}
sinks:
  - delta: {table: bronze/%(name)s}
"""

INCREMENTAL = STREAM + 'run: {mode: incremental, schedule: "@daily"}\n'

READINGS = """
description: Readings from files.
owner: tests
source:
  files: {path: landing, format: json, schema: "device string, at timestamp"}
event_time: {column: at, watermark: 1 hour}
sinks:
  - delta: {table: bronze/readings}
"""


@dataclass(frozen=True)
class SmallProject:
    """A project and what its fake drivers do."""

    folder: Path

    @property
    def environment(self) -> Environment:
        return load_environment(Project(self.folder), "local", {})

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the variables with which a driver finds the fake driver."""
        path = os.pathsep.join(str(ROOT / part) for part in ("", "spark_apps", "dags"))
        return {**os.environ, "PYTHONPATH": path}

    def plane(self) -> ControlPlane:
        """Return a separate control plane, as another process would have."""
        environment = self.environment
        runtime = LocalRuntime(environment, fake_driver_command, self.variables)
        return ControlPlane(environment, Store(environment.layout.root), runtime)

    def environ(self, text: str) -> None:
        """Write another environment file."""
        write_at_once(self.folder / "conf" / "environments" / "local.yaml", text)

    def declare(self, name: str, text: str = STREAM) -> str:
        write_at_once(self.folder / "conf" / "pipelines" / f"{name}.yaml", text % {"name": name})
        return name

    def behave(self, name: str, behaviour: str) -> None:
        """Set the behaviour of a pipeline's next driver; see the fake driver."""
        write_at_once(self.folder / "behaviour" / name, behaviour)

    def hold_back(self, name: str) -> None:
        """Let the next bounded driver of a pipeline wait until `let_go`."""
        self.behave(name, "wait")
        (self.folder / "behaviour" / f"{name}.go").unlink(missing_ok=True)

    def let_go(self, name: str) -> None:
        (self.folder / "behaviour" / f"{name}.go").touch()

    def end_all(self) -> None:
        """Kill every driver that still runs."""
        plane = self.plane()
        for record in self.environment.run_folder.glob("*.json"):
            pipeline, _, slot = record.stem.partition(".")
            running = partial(plane.running, pipeline, cast(Slot, slot or "main"))

            def is_gone(running: Callable[[], StartedDriver | None] = running) -> bool:
                driver = running()
                # A driver that ended by itself cannot be killed any more.
                return driver is None or plane.runtime.kill(driver) or running() is None

            eventually(is_gone, "no driver runs")


def write_at_once(path: Path, text: str) -> None:
    """Write a whole file in one step, because drivers and schedulers read it during a test."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text)
    unfinished.replace(path)


@contextmanager
def small_project(folder: Path) -> Iterator[SmallProject]:
    for part in ("conf/pipelines", "conf/environments", "behaviour"):
        (folder / part).mkdir(parents=True)
    (folder / "conf" / "environments" / "local.yaml").write_text(ENVIRONMENT)
    project = SmallProject(folder.resolve())
    try:
        yield project
    finally:
        project.end_all()
