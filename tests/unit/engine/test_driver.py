"""The driver process up to where Spark would start: its port, its pod, a source that is not there."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import SmallProject, small_project
from tidemill.checkpoint.epochs import newest_epoch
from tidemill.checkpoint.receipts import newest_receipt
from tidemill.checkpoint.root_owner import CONTROL_PLANE_VARIABLE, RootOwner, write_owner
from tidemill.checkpoint.status import read_status
from tidemill.control.ask.bounded_run import finish_of, start_bounded
from tidemill.control.ask.goal import prove
from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.control.local.local_runtime import LocalRuntime
from tidemill.control.plane import ControlPlane
from tidemill.dev.ports import free_ports
from tidemill.engine import driver
from tidemill.engine.drain import Drain
from tidemill.engine.driver_pod import DriverPod
from tidemill.errors import FencedError, SpecError
from tidemill.jars import JARS_VARIABLE
from tidemill.storage.store import Store

FILES = """
description: Readings from files.
owner: tests
source:
  files: {path: landing, format: json, schema: "device string, at timestamp"}
event_time: {column: at, watermark: 1 hour}
sinks:
  - delta: {table: bronze/readings}
"""

PLAN = ("--plan", "0123456789ab")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SmallProject]:
    with small_project(tmp_path / "project") as made:
        made.declare("orders")
        yield made


@pytest.fixture
def run_driver(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """Runs a stream's driver in this process, whose signals and log are left alone, with a port."""
    monkeypatch.setattr(Drain, "on_signals", lambda self: None)
    monkeypatch.setattr(driver, "log_json_lines", lambda **_: None)
    where = ["--project", str(project.folder), "--env", str(project.environment.file)]

    def run(port: int) -> int:
        return driver.main([*where, "--pipeline", "orders", "--mode", "stream", "--http-port", str(port)])

    return run


def pod(folder: Path) -> DriverPod:
    folder.mkdir()
    return DriverPod("tidemill-orders-0", "4d5e6f70", "127.0.0.1", "plant", "0a1b2c3d", str(folder))


def gives_way(*_: Any) -> Any:
    raise FencedError("TIDE-RUN-001", "A newer driver of this pipeline has started.")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_driver_that_was_fenced_off_stays_so_in_its_pod_and_touches_nothing(
    project: SmallProject, run_driver: Callable[[int], int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    old = pod(tmp_path / "old")
    monkeypatch.setattr(driver, "this_pod", lambda: old)
    monkeypatch.setattr(driver, "_run_mode", gives_way)
    assert run_driver(port) == 75
    left = contents(project.folder)
    plane = project.plane()
    receipt = newest_receipt(plane.store, plane.layout, "orders")
    assert receipt is not None
    assert (receipt.exit_code, receipt.epoch) == (75, 1)

    # An unreachable kubelet restarts its container.
    monkeypatch.setattr(driver, "_run_mode", lambda *_: "finished")
    assert run_driver(port) == 75
    assert contents(project.folder) == left

    new = pod(tmp_path / "new")
    monkeypatch.setattr(driver, "this_pod", lambda: new)
    assert run_driver(port) == 0
    assert newest_epoch(plane.store, plane.layout, "orders") == 2


def test_a_driver_of_a_control_plane_that_lost_the_root_ends_and_overwrites_nothing(
    project: SmallProject, run_driver: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    plane = project.plane()
    monkeypatch.setattr(driver, "_run_mode", lambda *_: "finished")
    monkeypatch.setenv(CONTROL_PLANE_VARIABLE, "plane-1")
    assert run_driver(port) == 0
    told = read_status(plane.store, plane.layout, "orders")
    owner = RootOwner(id="plane-2", runtime="kubernetes", place="namespace plant", host="scheduler-0")
    write_owner(plane.store, plane.layout, owner)

    assert run_driver(port) == 75
    receipt = newest_receipt(plane.store, plane.layout, "orders")
    assert receipt is not None
    assert ((receipt.error or {})["id"], receipt.epoch) == ("TIDE-RUN-005", None)
    assert read_status(plane.store, plane.layout, "orders") == told
    assert newest_epoch(plane.store, plane.layout, "orders") == 1

    monkeypatch.setenv(CONTROL_PLANE_VARIABLE, "plane-2")
    assert run_driver(port) == 0


def test_a_driver_without_a_pod_marks_nothing(
    run_driver: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(driver, "_run_mode", gives_way)
    assert [run_driver(port), run_driver(port)] == [75, 75]
    monkeypatch.setattr(driver, "_run_mode", lambda *_: "finished")
    assert run_driver(port) == 0


def test_a_driver_answers_probes_while_its_storage_is_silent(
    run_driver: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = threading.Event(), threading.Event()

    class SilentStore(Store):
        def read(self, path: str) -> bytes | None:
            self._wait()
            return super().read(path)

        def list_names(self, folder: str) -> list[str]:
            self._wait()
            return super().list_names(folder)

        def write(self, path: str, content: bytes) -> None:
            self._wait()
            super().write(path, content)

        def _wait(self) -> None:
            asked.set()
            assert answers.wait(60)

    monkeypatch.setattr(driver, "Store", SilentStore)
    monkeypatch.setattr(driver, "_run_mode", lambda *_: "finished")
    (port,) = free_ports(1)
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(run_driver, port)
        try:
            assert asked.wait(60)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
                assert answer.status == 200
        finally:
            answers.set()
        assert ended.result(60) == 0


def test_a_backfill_that_is_stopped_while_it_waits_for_its_source_is_not_finished(
    project: SmallProject,
) -> None:
    """A drained node sends SIGTERM. No row was written, so a retry starts from the beginning."""
    name, environment = project.declare("readings", FILES), project.environment
    runtime = LocalRuntime(environment, driver_command, project.variables)
    plane = ControlPlane(environment, Store(environment.layout.root), runtime)
    started = start_bounded(plane, DriverRun(name, "backfill", "fill-1", PLAN))
    eventually(lambda: '"unavailable"' in Path(started.log).read_text(), "it waits for its source", 60)
    assert plane.runtime.drain(started)
    eventually(lambda: plane.running(name, "backfill") is None, "it has ended", 60)
    proof = prove(plane, finish_of(started))
    assert (proof.state, proof.evidence["result"], proof.evidence["retry"]) == ("failed", "clean", True)
    assert start_bounded(plane, DriverRun(name, "backfill", "fill-1", PLAN)).started_at > started.started_at


def test_a_driver_that_a_person_waits_for_ends_at_once_where_its_source_does_not_exist(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt folder; without `--attended` the driver waits until it is made."""
    monkeypatch.setattr(Drain, "on_signals", lambda self: None)
    monkeypatch.setattr(driver, "log_json_lines", lambda **_: None)
    name, environment = project.declare("readings", FILES), project.environment
    where = ["--project", str(project.folder), "--env", str(environment.file)]
    assert driver.main([*where, "--pipeline", name, "--mode", "stream", "--attended"]) == 69
    receipt = newest_receipt(Store(environment.layout.root), environment.layout, name)
    assert receipt is not None
    assert receipt.error is not None
    assert receipt.error["id"] == "TIDE-SRC-005"
    assert receipt.error["facts"] == {"folder": environment.layout.folder("landing")}
    assert "correct its name" in receipt.error["fix"]


def test_a_driver_without_jars_ends_at_once_and_is_not_started_again(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Drain, "on_signals", lambda self: None)
    monkeypatch.setattr(driver, "log_json_lines", lambda **_: None)
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    name, environment = project.declare("readings", FILES), project.environment
    Path(environment.layout.folder("landing").removeprefix("file://")).mkdir(parents=True)
    where = ["--project", str(project.folder), "--env", str(environment.file)]
    assert driver.main([*where, "--pipeline", name, "--mode", "stream"]) == SpecError.exit_code
    receipt = newest_receipt(Store(environment.layout.root), environment.layout, name)
    assert receipt is not None
    assert receipt.error is not None
    assert receipt.error["id"] == "TIDE-JARS-001"
