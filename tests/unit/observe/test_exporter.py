"""`tidemill metrics`: over a state folder that real processes have left."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.scraped import scraped
from tests.support.small_project import SmallProject
from tests.support.stream_requests import settled
from tidemill.checkpoint.holds import Hold, take_hold
from tidemill.checkpoint.status import Status, write_status
from tidemill.control.ask.goal import Goal
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.reconcile_record import ReconcileRecord, keep_record
from tidemill.engine.http_port import serve
from tidemill.metrics import CONTROL_METRICS, DRIVER_METRICS
from tidemill.observe.exporter import Exporter, Watched
from tidemill.storage.store import Store


@pytest.fixture
def cli(project: SmallProject, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(project.folder, capsys.readouterr)


def shown(cli: CommandLine) -> dict[tuple[str, ...], float]:
    assert cli("metrics", "show") == 0, cli.err
    return scraped(cli.out)


def test_a_project_in_which_nothing_ran_has_a_page(cli: CommandLine) -> None:
    assert {key[0] for key in shown(cli)} == {
        "tidemill_snapshot_timestamp_seconds",
        "tidemill_snapshot_duration_seconds",
        "tidemill_unreadable_pipelines",
    }


def test_local_drivers_and_their_control_plane_share_one_page(
    project: SmallProject, cli: CommandLine
) -> None:
    plane = project.plane()
    for name in ("orders", "returns"):
        project.declare(name)
    project.behave("returns", "exit 64")
    reconcile_streams(plane)
    settled(plane, Goal(pipeline="orders", kind="progress"))
    eventually(lambda: plane.running("returns") is None, "the refused driver has ended")
    reconcile_streams(plane)
    assert take_hold(plane.store, plane.layout, "orders", Hold(id="h", by="ann", why="the broker moves"))
    state = Path(plane.layout.state("returns"))
    (state / "status.json").write_text("{")
    (state.parent / "notes.txt").write_text("no pipeline")

    values = shown(cli)
    assert values["tidemill_batch_id", "orders", "stream"] == 0
    assert values["tidemill_stream_running", "orders"] == 1
    assert values["tidemill_stream_decision", "returns", "refused"] == 1
    assert (values["tidemill_stream_wanted", "returns"], values["tidemill_stream_running", "returns"]) == (
        1,
        0,
    )
    assert values["tidemill_holds", "orders"] == 1
    assert values["tidemill_restart_budget_left", "orders"] == 6
    assert values["tidemill_unreadable_pipelines",] == 1


def test_a_silent_storage_delays_no_reconciliation(project: SmallProject) -> None:
    answers = threading.Event()

    class SilentStore(Store):
        def write_json(self, path: str, document: Mapping[str, Any]) -> None:
            answers.wait(60)

    plane = project.plane()
    now = datetime.now(UTC)
    begun = time.monotonic()
    keep_record(
        SilentStore(plane.layout.root),
        plane.layout,
        ReconcileRecord(began_at=now, ended_at=now),
        wait_seconds=0.1,
    )
    assert time.monotonic() - begun < 30
    answers.set()


def test_a_crash_costs_one_restart(project: SmallProject, cli: CommandLine) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "crash")
    reconcile_streams(plane)
    eventually(lambda: plane.running(name) is None, "the driver has crashed")
    reconcile_streams(plane)
    values = shown(cli)
    assert (values["tidemill_restarts", name], values["tidemill_restart_budget_left", name]) == (1, 5)


def test_no_data_loss_is_told_of_a_pipeline_that_was_removed(project: SmallProject, cli: CommandLine) -> None:
    plane, now = project.plane(), datetime.now(UTC)
    name = project.declare("orders")
    said = {"state": "stopped", "started_at": now, "updated_at": now}
    known = {"caught_up_at": now - timedelta(hours=2), "source_retention_seconds": 3600.0}
    status = Status.model_validate({"pipeline": name, "mode": "stream", "run_id": "r", **said, **known})
    write_status(plane.store, plane.layout.status(name), status)
    assert shown(cli)["tidemill_time_to_data_loss_seconds", name] < 0
    project.environment.project.pipeline_file(name).unlink()
    assert not [key for key in shown(cli) if name in key]


def test_the_page_is_served_until_a_signal(project: SmallProject) -> None:
    with serving(project) as (process, address):
        with urllib.request.urlopen(f"{address}/healthz", timeout=30) as answer:
            assert answer.status == 200
        page = eventually(lambda: scrape(address), "the storage was read")
        assert scraped(page)["tidemill_unreadable_pipelines",] == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_port_that_is_taken_is_refused(project: SmallProject, cli: CommandLine) -> None:
    exporter = Exporter(Watched(project.environment, project.plane().store), timedelta(seconds=1))
    server = serve(("127.0.0.1", 0), exporter.answer)
    assert server is not None
    assert cli("metrics", "serve", "--port", str(server.server_address[1])) == 1
    assert "TIDE-OBS-001" in cli.err
    server.shutdown()
    server.server_close()


def test_storage_that_fails_leaves_the_page_that_tells_its_age(project: SmallProject) -> None:
    class FailingStore(Store):
        fails = False

        def list_names(self, folder: str) -> list[str]:
            if self.fails:
                raise OSError("away")
            return super().list_names(folder)

    store = FailingStore(project.environment.layout.root)
    exporter = Exporter(Watched(project.environment, store), timedelta(seconds=1))
    assert exporter.answer("/metrics").code == 503
    exporter.refresh()
    page = exporter.answer("/metrics")
    store.fails = True
    exporter.refresh()
    assert exporter.answer("/metrics") == page
    assert page.code == 200


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://user:pw@host", "http://host/?a=b", "http://host\n", '"; rm -rf /"']
)
def test_an_address_that_is_none_is_refused(cli: CommandLine, url: str) -> None:
    assert cli("metrics", "show", "--airflow-url", url) == 2
    assert "TIDE-OBS-002" in cli.err
    assert "pw@" not in cli.err


def test_an_airflow_that_does_not_answer_is_not_healthy(cli: CommandLine) -> None:
    assert cli("metrics", "show", "--airflow-url", "http://127.0.0.1:1") == 0
    assert scraped(cli.out)["tidemill_airflow_component_healthy", "api_server"] == 0


def test_every_metric_is_listed(cli: CommandLine) -> None:
    names = [metric["name"] for metric in cli.json("metrics", "list")]
    assert names == [metric.name for metric in (*DRIVER_METRICS, *CONTROL_METRICS)]


def scrape(address: str) -> str | None:
    try:
        with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


@contextmanager
def serving(project: SmallProject) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `tidemill metrics serve` in a separate process, and yield its address."""
    command = [sys.executable, "-m", "tidemill.cli.app", "--project", str(project.folder), "--env", "local"]
    process = subprocess.Popen(
        [*command, "metrics", "serve", "--port", "0", "--refresh", "1"],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(project.variables),
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[-1].removesuffix("/metrics")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
