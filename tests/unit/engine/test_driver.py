"""The driver process up to where Spark would start: its port, its pod, a source that is not there."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.small_project import SmallProject, small_project
from tidemill.dev.ports import free_ports
from tidemill.engine import driver
from tidemill.engine.drain import Drain
from tidemill.engine.driver_pod import DriverPod
from tidemill.storage.store import Store


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SmallProject]:
    with small_project(tmp_path / "project") as made:
        made.declare("orders")
        yield made


@pytest.fixture
def run_driver(project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], int]:
    """Runs a stream's driver in this process, whose signals and log are left alone, with a port."""
    monkeypatch.setattr(Drain, "on_signals", lambda self: None)
    monkeypatch.setattr(driver, "log_json_lines", lambda: None)
    where = ["--project", str(project.folder), "--env", str(project.environment.file)]

    def run(port: int) -> int:
        return driver.main([*where, "--pipeline", "orders", "--mode", "stream", "--http-port", str(port)])

    return run


def pod(folder: Path) -> DriverPod:
    folder.mkdir()
    return DriverPod("tidemill-orders-0", "4d5e6f70", "127.0.0.1", "plant", "0a1b2c3d", str(folder))


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
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
                assert answer.status == 200
        finally:
            answers.set()
        assert ended.result(60) == 0
