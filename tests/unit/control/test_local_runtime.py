"""Drivers as processes: started once, found by identity, drained, killed with all they left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import SmallProject
from tidemill.checkpoint.receipts import newest_receipt
from tidemill.checkpoint.status import Status, read_status
from tidemill.control.driver_command import DriverRun
from tidemill.control.driver_variables import driver_variables, started_by
from tidemill.control.local.driver_record import read_record, write_record
from tidemill.control.local.local_launch import KEPT_LOGS
from tidemill.control.local.process_identity import ProcessIdentity
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import StartedDriver
from tidemill.errors import UnavailableError, UsageError


@pytest.fixture
def new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start drivers as new processes, as for users, instead of forks."""
    monkeypatch.setattr("tidemill.control.local.local_launch.Popen", subprocess.Popen)


def run_of(name: str, run_id: str = "run-1", mode: str = "stream") -> DriverRun:
    return DriverRun(name, mode, run_id)  # type: ignore[arg-type]


def until_committed(plane: ControlPlane, driver: StartedDriver) -> Status:
    def committed() -> Status | None:
        status = read_status(plane.store, plane.layout, driver.pipeline)
        is_own = status is not None and status.run_id == driver.run_id
        return status if is_own and status.batch_committed_at is not None else None

    return eventually(committed, "the driver commits a batch")


def until_gone(plane: ControlPlane, name: str) -> None:
    eventually(lambda: plane.running(name) is None, "the driver is gone")


def identity(project: SmallProject, name: str) -> ProcessIdentity:
    record = eventually(
        lambda: (r := read_record(project.environment.run_folder / f"{name}.json")) and r.identity,
        "a signed record",
    )
    assert isinstance(record, ProcessIdentity)
    return record


@pytest.mark.usefixtures("new_processes")
def test_a_driver_is_started_in_a_session_of_its_own_and_logs_to_a_file(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    result = plane.runtime.start(run_of(name), "d1")
    until_committed(plane, result.driver)
    assert result.started
    process = identity(project, name)
    assert os.getsid(process.pid) == process.pid
    assert Path(result.driver.log).read_text() == "fake driver run-1: run\n"
    assert result.driver.process == f"pid {process.pid}"


def test_a_second_start_finds_the_first_driver_instead(project: SmallProject) -> None:
    name = project.declare("orders")
    first = project.plane().runtime.start(run_of(name, "run-1"), "d1")
    second = project.plane().runtime.start(run_of(name, "run-2"), "d1")
    assert (second.started, second.driver.run_id) == (False, first.driver.run_id)


def test_of_many_racing_starts_one_wins_and_all_see_its_driver(project: SmallProject) -> None:
    name = project.declare("orders")
    planes = [project.plane() for _ in range(8)]
    with ThreadPoolExecutor(len(planes)) as pool:
        results = list(
            pool.map(lambda p: p[1].runtime.start(run_of(name, f"run-{p[0]}"), "d1"), enumerate(planes))
        )
    winners = [result.driver.run_id for result in results if result.started]
    assert len(winners) == 1
    assert {result.driver.run_id for result in results} == set(winners)


START_AND_DIE = """
import os, signal, sys
from pathlib import Path
from tests.support.small_project import SmallProject
from tidemill.control.driver_command import DriverRun
SmallProject(Path(sys.argv[1])).plane().runtime.start(DriverRun("orders", "stream", "run-1"), "d1")
os.killpg(0, signal.SIGKILL)
"""


def test_a_driver_outlives_its_killed_starter_and_is_found_again(project: SmallProject) -> None:
    name = project.declare("orders")
    starter = subprocess.run(
        [sys.executable, "-c", START_AND_DIE, str(project.folder)],
        check=False,
        env=project.variables,
        start_new_session=True,
    )
    assert starter.returncode == -signal.SIGKILL
    plane = project.plane()
    driver = plane.running(name)
    assert driver is not None
    until_committed(plane, driver)
    assert not plane.runtime.start(run_of(name, "run-2"), "d1").started


def test_the_lock_goes_with_the_driver_however_it_ends(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    first = plane.runtime.start(run_of(name, "run-1"), "d1").driver
    identity(project, name).signal(signal.SIGKILL)
    until_gone(plane, name)
    second = plane.runtime.start(run_of(name, "run-2"), "d1")
    assert second.started
    assert second.driver.started_at > first.started_at


def test_a_reused_pid_is_neither_taken_for_the_driver_nor_signalled(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    driver = plane.runtime.start(run_of(name), "d1").driver
    true_identity = identity(project, name)
    file = project.environment.run_folder / "orders.json"
    record = read_record(file)
    assert record is not None
    stranger = ProcessIdentity(true_identity.pid, true_identity.start_time - 1, true_identity.boot_id)
    write_record(file, record.model_copy(update={"identity": stranger}))
    assert plane.running(name) is None
    assert not plane.runtime.drain(driver)
    assert true_identity.is_alive()
    write_record(file, record)


def test_a_drain_ends_with_a_clean_receipt_of_that_run(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    driver = plane.runtime.start(run_of(name), "d1").driver
    until_committed(plane, driver)
    assert plane.runtime.drain(driver)
    until_gone(plane, name)
    receipt = newest_receipt(plane.store, plane.layout, name)
    assert receipt is not None
    assert (receipt.run_id, receipt.result, receipt.exit_code) == ("run-1", "clean", 0)


def test_a_drain_in_the_very_moment_of_the_start_is_not_lost(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    for number in range(3):
        driver = plane.runtime.start(run_of(name, f"run-{number}"), "d1").driver
        assert plane.runtime.drain(driver)
        until_gone(plane, name)


def test_another_process_sees_that_a_drain_was_requested(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    project.behave(name, "deaf")
    driver = plane.runtime.start(run_of(name), "d1").driver
    until_committed(plane, driver)
    plane.runtime.drain(driver)
    seen = project.plane().running(name)
    assert seen is not None
    assert seen.drain_requested_at is not None
    assert plane.runtime.kill(driver)
    until_gone(plane, name)
    assert plane.runtime.start(run_of(name, "run-2"), "d1").driver.drain_requested_at is None


@pytest.mark.usefixtures("new_processes")
def test_what_a_killed_driver_left_is_ended_before_the_next_one_starts(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    project.behave(name, "leave-child")
    driver = plane.runtime.start(run_of(name), "d1").driver
    until_committed(plane, driver)
    leader = identity(project, name)
    child = ProcessIdentity.of(int(Path(f"/proc/{leader.pid}/task/{leader.pid}/children").read_text()))
    leader.signal(signal.SIGKILL)
    until_gone(plane, name)
    assert child.is_alive()
    project.behave(name, "run")
    assert plane.runtime.start(run_of(name, "run-2"), "d1").started
    assert not child.is_alive()


def test_a_backfill_runs_beside_the_stream_and_an_incremental_run_does_not(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    stream = plane.runtime.start(run_of(name, "stream"), "d1")
    backfill = plane.runtime.start(run_of(name, "backfill", "backfill"), "d1")
    incremental = plane.runtime.start(run_of(name, "incremental", "incremental"), "d1")
    assert (stream.started, backfill.started, incremental.started) == (True, True, False)
    assert incremental.driver.run_id == "stream"


def test_a_lock_without_a_living_driver_is_told_not_broken(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.control.local.local_runtime.RECORD_TIMEOUT_SECONDS", 0.1)
    from tidemill.control.local.slot_lock import try_lock

    name = project.declare("orders")
    project.environment.run_folder.mkdir(parents=True)
    with try_lock(project.environment.run_folder / "orders.lock"), pytest.raises(UnavailableError) as caught:
        project.plane().runtime.start(run_of(name), "d1")
    assert caught.value.error_id == "TIDE-CTRL-003"


def test_a_damaged_record_is_told_with_its_file(project: SmallProject) -> None:
    name = project.declare("orders")
    project.environment.run_folder.mkdir(parents=True)
    record = project.environment.run_folder / "orders.json"
    record.write_text("{")
    with pytest.raises(UsageError) as caught:
        project.plane().runtime.start(run_of(name), "d1")
    assert caught.value.error_id == "TIDE-CTRL-001"
    assert caught.value.facts["file"] == record
    record.unlink()


def test_old_logs_go_and_the_newest_stay(project: SmallProject) -> None:
    name = project.declare("orders")
    folder = project.environment.run_folder / "logs" / name
    folder.mkdir(parents=True)
    for number in range(KEPT_LOGS + 5):
        (folder / f"20250101T0000{number:02}.000000Z.log").touch()
    driver = project.plane().runtime.start(run_of(name), "d1").driver
    logs = sorted(folder.glob("*.log"))
    assert len(logs) == KEPT_LOGS
    assert str(logs[-1]) == driver.log


def test_a_driver_gets_what_it_needs_and_nothing_of_airflow() -> None:
    airflow = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "x",
        "AIRFLOW_CONN_DB": "x",
        "AIRFLOW_HOME": "x",
        "_AIRFLOW_X": "x",
    }
    other = {"AWS_SECRET_ACCESS_KEY": "x"}
    needed = {
        "PATH": "p",
        "JAVA_HOME": "j",
        "HOME": "h",
        "LC_ALL": "C",
        "TIDEMILL_SECRET_KAFKA": "s",
        "PYTHONPATH": "y",
    }
    own = {"TIDEMILL_RUN_ID": "run-1", "TIDEMILL_CONTROL_PLANE": "plane-1"}
    given = driver_variables({**airflow, **other, **needed}, started_by("run-1", "plane-1"))
    assert given == {**needed, **own}
    asked = driver_variables({}, started_by("run-1", "plane-1", "tidemill_streams run-7"))
    assert asked == {**own, "TIDEMILL_DAG_RUN": "tidemill_streams run-7"}


@pytest.mark.usefixtures("new_processes")
def test_the_drivers_process_really_has_no_variable_of_airflow(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "secret")
    plane, name = project.plane(), project.declare("orders")
    until_committed(plane, plane.runtime.start(run_of(name), "d1").driver)
    environ = Path(f"/proc/{identity(project, name).pid}/environ").read_bytes()
    assert b"TIDEMILL_RUN_ID=run-1" in environ.split(b"\0")
    assert b"AIRFLOW" not in environ


def test_records_name_no_secret_and_are_for_their_owner_only(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    plane.runtime.start(run_of(name), "d1")
    file = project.environment.run_folder / "orders.json"
    identity(project, name)
    assert file.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(file.read_text())) == {
        *("v", "pipeline", "mode", "run_id", "digest", "started_at", "log", "identity", "not_made")
    }


def test_the_end_of_a_drivers_log_is_there_for_whoever_asks_why(project: SmallProject) -> None:
    plane, name = project.plane(), project.declare("orders")
    project.behave(name, "exit 65")
    driver = plane.runtime.start(run_of(name), "d1").driver
    until_gone(plane, name)
    assert plane.runtime.read_log(driver).lines == ["fake driver run-1: exit 65"]
    Path(driver.log).unlink()
    assert plane.runtime.read_log(driver).lines == []
