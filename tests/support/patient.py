"""A pipeline that a runbook page is about: made ill by a test, treated with the page's commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.paper_batches import PaperBatches
from tests.support.paper_broker import PaperBroker
from tests.support.small_project import SmallProject, small_project, write_at_once
from tidemill.control.ask.stream_request import StreamRequest, begin
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.spec.project import Pipeline, resolve_pipeline
from tidemill.storage.store import Store

ORDERS = """
description: Orders as they came.
owner: tests
source: {kafka: {topic: orders}}
sinks:
  - delta: {table: bronze/orders}
"""
TABLE = "bronze/orders"
# Values of the placeholders in a page, unless a story sets others.
PLACEHOLDERS = {
    "PIPELINE": "orders",
    "TEXT": "as the page says",
    "BATCH": "1",
    "TABLE": TABLE,
    "BEGIN": "2026-01-01T00:00:00Z",
    "END": "2026-01-02T00:00:00Z",
    "SIZE": "6h",
}


@dataclass
class Patient:
    """A project with storage, drivers without Spark, and a broker on paper or none.

    Args:
        drivers: The project and what its drivers do.
        tidemill: Command line of the project.
        patch: Undone after the test.
        name: The pipeline.
        values: Values of the page's placeholders.
        topic_ids: Ids that the broker gives the topics from now on.
        cluster: Id of its cluster from now on.
        put_back: Undoes by hand what has happened, where that can be done.
    """

    drivers: SmallProject
    tidemill: CommandLine
    patch: pytest.MonkeyPatch
    name: str = "orders"
    values: dict[str, str] = field(default_factory=lambda: dict(PLACEHOLDERS))
    topic_ids: tuple[tuple[str, str], ...] = ()
    cluster: str | None = None
    put_back: Callable[[], object] = lambda: None

    @property
    def pipeline(self) -> Pipeline:
        return resolve_pipeline(self.drivers.environment, self.name)

    @property
    def plane(self) -> ControlPlane:
        """Return a control plane whose drivers are those of the command line."""
        return open_control_plane(self.drivers.environment)

    @property
    def batches(self) -> PaperBatches:
        return PaperBatches(self.pipeline, self.topic_ids, self.cluster)

    @property
    def checkpoint(self) -> Path:
        """Return the checkpoint of the live generation."""
        return self.batches.checkpoint

    @property
    def state(self) -> Path:
        return Path(self.pipeline.layout.state(self.name))

    def table(self, name: str = TABLE) -> Path:
        return Path(self.pipeline.layout.table(name))

    def ids(self, table: str = TABLE) -> list[int]:
        return self.batches.ids(table)

    def declare(self, text: str = ORDERS, name: str = "orders") -> None:
        write_at_once(self.drivers.folder / f"conf/pipelines/{name}.yaml", text)

    def redeclare(self, old: str, new: str, name: str = "orders") -> None:
        file = self.drivers.folder / f"conf/pipelines/{name}.yaml"
        text = file.read_text()
        assert old in text
        write_at_once(file, text.replace(old, new))

    def ran(self, batches: int, text: str = ORDERS) -> Patient:
        """Declare the pipeline, and write the files of this number of batches."""
        self.declare(text)
        return self.went_on(batches)

    def went_on(self, batches: int = 1) -> Patient:
        for _ in range(batches):
            self.batches.run()
        return self

    def has_backup(self) -> str:
        """Take a backup; its name, which is also the page's BACKUP."""
        taken = self.tidemill.json("checkpoint", "backup", self.name, "--apply", "--reason", "nightly")
        self.values["BACKUP"] = str(taken["backup"])
        return self.values["BACKUP"]

    def has_broker(self, first: int = 0, end: int = 1000, topic: str = "orders", **told: Any) -> PaperBroker:
        """Let a broker answer for the pipeline's topic, which has one partition."""
        return PaperBroker({topic: {0: (first, end)}}, **told).stand_in(self.patch)

    def restore_table_by_hand(self, version: int) -> None:
        DeltaTable(str(self.table())).restore(version)

    def forget_batches_after(self, batch_id: int) -> None:
        """Put an older copy of the checkpoint in its place."""
        for folder in ("offsets", "commits"):
            for file in (self.checkpoint / folder).iterdir():
                if file.name.isdecimal() and int(file.name) > batch_id:
                    file.unlink()

    def keep(self, *paths: Path) -> Callable[[], None]:
        """Copy files or folders, and return a function that puts them back."""
        kept = self.drivers.folder / "kept"
        pairs = [(path, kept / f"{number}") for number, path in enumerate(paths)]
        for path, copy in pairs:
            _copy(path, copy)

        def back() -> None:
            for path, copy in pairs:
                _copy(copy, path)

        return back

    def run(self, command: str) -> int:
        """Type a command of the page; its exit code."""
        return self.tidemill(*self.filled(command)[1:])

    def filled(self, command: str) -> Sequence[str]:
        """Return the words of a command with values for the placeholders; unknown ones raise a KeyError."""
        return [self.values[word] if word.isupper() else word for word in shlex.split(command)]

    def driver_starts(self, behaviour: str) -> None:
        """Let the control plane start a driver with this behaviour, without waiting for its proof."""
        self.drivers.behave(self.name, behaviour)
        run_id = f"run-{uuid.uuid4().hex[:8]}"
        begin(self.plane, StreamRequest(self.name, "start", run_id, datetime.now(UTC), "ann"))

    def driver_waits(self, error: str) -> None:
        """Start a driver that waits with an error."""
        self.driver_starts(f"waits {error}")
        self.driver_says("waiting")

    def driver_ends(self, error: str, exit_code: int) -> None:
        """Write the files of a driver that has ended with an error."""
        self.driver_starts(f"ends {error} {exit_code}")
        plane = self.plane
        eventually(lambda: plane.running(self.name) is None, "the driver ends")

    def driver_says(self, state: str) -> None:
        """Wait until the driver reports this state."""

        # Reading the conf files takes longer than the look.
        pipeline = self.pipeline
        store = Store(pipeline.layout.root)

        def told() -> bool:
            document = store.read_json(pipeline.layout.status(self.name))
            return document is not None and document["state"] == state

        eventually(told, f"the driver says that it is {state}")

    def told_by_status(self) -> list[str]:
        """Return error ids that `tidemill status` shows."""
        return re.findall(r"TIDE-[A-Z0-9]+-\d{3}", json.dumps(self.status()))

    def findings(self) -> dict[str, dict[str, Any]]:
        """Return the gate's errors by id."""
        self.tidemill("checkpoint", "gate", self.name, "--json")
        found = json.loads(self.tidemill.out)["findings"]
        return {finding["id"]: finding for finding in found if finding["severity"] == "error"}

    def doctor(self, *options: str) -> dict[str, dict[str, Any]]:
        """Return the doctor's findings by id."""
        self.tidemill("checkpoint", "doctor", *options, "--json")
        return {finding["id"]: finding for finding in json.loads(self.tidemill.out)["findings"]}

    def status(self) -> dict[str, Any]:
        (state,) = self.tidemill.json("status", self.name)
        return dict(state)

    def commits(self) -> list[dict[str, Any]]:
        """Return the ledger's entries, newest first."""
        return [commit["entry"] for commit in self.tidemill.json("ledger", self.name)]


@contextmanager
def patient(folder: Path, patch: pytest.MonkeyPatch, read_output: Callable[[], Any]) -> Iterator[Patient]:
    """Yield a project without pipelines. No broker answers, and calls time out after a tenth of a second."""
    patch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.paper_driver:paper_driver_command")
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    patch.setattr("tidemill.sources.offsets.ANSWER_TIMEOUT_SECONDS", 0.1)
    patch.setattr("tidemill.sources.topic_retention.ANSWER_TIMEOUT_SECONDS", 0.1)
    with small_project(folder) as drivers:
        yield Patient(drivers, CommandLine(drivers.folder, read_output), patch)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)
