"""Runs that end by themselves: found again, proven by their receipt, never run twice for one request."""

from __future__ import annotations

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import INCREMENTAL, SmallProject
from tidemill.checkpoint.status import read_status
from tidemill.control.bounded_run import finish_of, start_bounded, tables_written
from tidemill.control.driver_command import DriverRun
from tidemill.control.goal import prove
from tidemill.control.plane import ControlPlane
from tidemill.control.run_id import LONGEST_RUN_ID, run_id_of
from tidemill.errors import UnavailableError


def until_ended(plane: ControlPlane, name: str) -> None:
    eventually(lambda: plane.running(name) is None, f"{name} has ended")


def is_at_work(plane: ControlPlane, name: str) -> None:
    """Wait until the driver hears SIGTERM."""
    eventually(lambda: read_status(plane.store, plane.layout, name) is not None, f"{name} is at work")


def test_a_bounded_run_is_found_again_while_it_works_and_proven_by_its_receipt(project: SmallProject) -> None:
    name = project.declare("daily", INCREMENTAL)
    project.hold_back(name)
    run = DriverRun(name, "incremental", "run-1")
    first = start_bounded(project.plane(), run)
    again = start_bounded(project.plane(), run)
    assert again.started_at == first.started_at
    plane = project.plane()
    assert prove(plane, finish_of(first)).state == "pending"
    project.let_go(name)
    until_ended(plane, name)
    assert prove(plane, finish_of(first)).state == "done"
    (table,) = tables_written(plane, name, "run-1")
    assert (table.table, table.version, table.rows, table.batch_ids) == ("bronze/daily", 0, 3, [0])


def test_a_bounded_run_that_succeeded_is_not_run_again_by_a_repeated_request(project: SmallProject) -> None:
    name, plane = project.declare("daily", INCREMENTAL), project.plane()
    run = DriverRun(name, "incremental", "run-1")
    first = start_bounded(plane, run)
    until_ended(plane, name)
    again = start_bounded(project.plane(), run)
    assert again.started_at == first.started_at
    assert prove(plane, finish_of(again)).state == "done"
    assert start_bounded(plane, DriverRun(name, "incremental", "run-2")).started_at > first.started_at


def test_a_bounded_run_that_failed_is_run_again_by_a_repeated_request(project: SmallProject) -> None:
    name, plane = project.declare("daily", INCREMENTAL), project.plane()
    project.behave(name, "exit 69")
    run = DriverRun(name, "incremental", "run-1")
    first = start_bounded(plane, run)
    until_ended(plane, name)
    project.behave(name, "run")
    again = start_bounded(plane, run)
    assert again.started_at > first.started_at
    until_ended(plane, name)
    assert prove(plane, finish_of(again)).state == "done"


@pytest.mark.parametrize("behaviour", ["wait", "forced"])
def test_a_bounded_run_that_was_stopped_early_is_not_finished_and_a_retry_runs_it(
    project: SmallProject, behaviour: str
) -> None:
    """As by a drained node: the driver ends clean, or is cut off, and has not done its work."""
    name, plane = project.declare("daily", INCREMENTAL), project.plane()
    project.behave(name, behaviour)
    run = DriverRun(name, "incremental", "run-1")
    first = start_bounded(plane, run)
    is_at_work(plane, name)
    assert plane.runtime.drain(first)
    until_ended(plane, name)
    proof = prove(plane, finish_of(first))
    assert (proof.state, proof.evidence["exit_code"], proof.evidence["retry"]) == ("failed", 0, True)
    assert proof.message.startswith("stopped")
    assert tables_written(plane, name, "run-1") == []

    project.behave(name, "run")
    again = start_bounded(plane, run)
    assert again.started_at > first.started_at
    until_ended(plane, name)
    assert prove(plane, finish_of(again)).state == "done"
    assert [table.rows for table in tables_written(plane, name, "run-1")] == [3]


def test_two_bounded_runs_of_one_pipeline_do_not_share_a_driver(project: SmallProject) -> None:
    name = project.declare("daily", INCREMENTAL)
    project.hold_back(name)
    start_bounded(project.plane(), DriverRun(name, "incremental", "run-1"))
    with pytest.raises(UnavailableError) as caught:
        start_bounded(project.plane(), DriverRun(name, "incremental", "run-2"))
    assert caught.value.error_id == "TIDE-CTRL-008"
    assert caught.value.facts["run_id"] == "run-1"


@pytest.mark.parametrize(("behaviour", "retry"), [("exit 69", True), ("crash", True), ("exit 65", False)])
def test_a_failed_bounded_run_says_whether_a_retry_can_help(
    project: SmallProject, behaviour: str, retry: bool
) -> None:
    name = project.declare("daily", INCREMENTAL)
    project.behave(name, behaviour)
    plane = project.plane()
    driver = start_bounded(plane, DriverRun(name, "incremental", "run-1"))
    until_ended(plane, name)
    proof = prove(plane, finish_of(driver))
    assert (proof.state, proof.evidence["retry"]) == ("failed", retry)


def test_an_airflow_run_id_becomes_a_safe_run_id_always_the_same() -> None:
    scheduled = "scheduled__2026-01-01T00:00:00+00:00"
    assert run_id_of(scheduled) == run_id_of(scheduled)
    assert run_id_of(scheduled).startswith("scheduled__2026-01-01T00-00-00-00-00")
    assert run_id_of("a/b") != run_id_of("a:b")
    assert len(run_id_of("x" * 500)) <= LONGEST_RUN_ID
    assert not set(run_id_of("../../$(id)\n")) & set("/$()\n")
