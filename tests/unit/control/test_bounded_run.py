"""Runs that end by themselves: found again, proven by their receipt, never run twice for one request."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.commits import commit_of
from tests.support.delta_logs import LogCommit, write_log
from tests.support.eventually import eventually
from tests.support.small_project import INCREMENTAL, SmallProject
from tidemill.checkpoint.status import read_status
from tidemill.control.ask.bounded_run import (
    backfill_run,
    end_stuck_driver,
    finish_of,
    plan_of,
    same_work,
    start_bounded,
    stop_backfill,
    stop_run,
    tables_written,
)
from tidemill.control.ask.goal import prove
from tidemill.control.ask.run_id import LONGEST_RUN_ID, run_id_of
from tidemill.control.driver_command import DriverRun
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import Runtime, Slot, StartedDriver, StartResult
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
    (table,) = tables_written(plane, name, {"run-1"}, first.claimed_at)
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
    """The node is drained: the driver ends clean or is cut off, and has not finished its work."""
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
    assert tables_written(plane, name, {"run-1"}, first.claimed_at) == []

    project.behave(name, "run")
    again = start_bounded(plane, run)
    assert again.started_at > first.started_at
    until_ended(plane, name)
    assert prove(plane, finish_of(again)).state == "done"
    assert [table.rows for table in tables_written(plane, name, {"run-1"}, first.claimed_at)] == [3]


def test_two_bounded_runs_of_one_pipeline_do_not_share_a_driver(project: SmallProject) -> None:
    name = project.declare("daily", INCREMENTAL)
    project.hold_back(name)
    start_bounded(project.plane(), DriverRun(name, "incremental", "run-1"))
    with pytest.raises(UnavailableError) as caught:
        start_bounded(project.plane(), DriverRun(name, "incremental", "run-2"))
    assert caught.value.error_id == "TIDE-CTRL-008"
    assert caught.value.facts["run_id"] == "run-1"


def test_a_cleared_run_does_not_join_the_one_before_while_that_drains(project: SmallProject) -> None:
    """The task was marked as failed, its driver was asked to stop, and then a user clears the task."""
    name, plane = project.declare("daily", INCREMENTAL), project.plane()
    project.hold_back(name)
    first = start_bounded(plane, DriverRun(name, "incremental", "run-1"))
    cleared = DriverRun(name, "incremental", "run-2")
    assert start_bounded(plane, cleared, ["run-1"]).run_id == "run-1"
    is_at_work(plane, name)
    draining = Draining(plane.runtime, first.run_id)
    with pytest.raises(UnavailableError) as caught:
        start_bounded(replace(plane, runtime=draining), cleared, ["run-1"])  # type: ignore[arg-type]
    assert (caught.value.error_id, caught.value.facts["run_id"]) == ("TIDE-CTRL-008", "run-1")
    stop_run(plane, finish_of(first), "airflow", "its task was marked as failed")
    until_ended(plane, name)
    project.behave(name, "run")
    again = start_bounded(plane, cleared, ["run-1"])
    until_ended(plane, name)
    assert (again.run_id, prove(plane, finish_of(again)).state) == ("run-2", "done")


class Draining:
    """A place where the driver of a run takes its time to drain."""

    def __init__(self, runtime: Runtime, run_id: str) -> None:
        self._runtime = runtime
        self._run_id = run_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def start(self, run: DriverRun, digest: str) -> StartResult:
        found = self._runtime.start(run, digest)
        assert found.driver.run_id == self._run_id
        return replace(found, driver=replace(found.driver, drain_requested_at=datetime.now(UTC)))


PLAN = "0123456789ab"


def backfill_at_work(project: SmallProject, name: str, request: str | None = None) -> StartedDriver:
    """Return a backfill that waits until the test lets it go."""
    plane = project.plane()
    project.hold_back(name)
    driver = start_bounded(plane, backfill_run(name, PLAN, request))
    status = Path(plane.layout.backfill_status(name, PLAN))
    eventually(status.exists, f"{name} is at work")
    return driver


def test_a_backfill_that_a_person_stopped_says_so_and_is_not_retried(project: SmallProject) -> None:
    name, plane = project.declare("daily"), project.plane()
    driver = backfill_at_work(project, name)

    stopped = stop_backfill(plane, name, "ann", "the wrong day")

    assert stopped is not None
    assert stopped.run_id == driver.run_id
    eventually(lambda: plane.running(name, "backfill") is None, "it has ended")
    proof = prove(plane, finish_of(driver))
    assert (proof.state, proof.evidence["retry"]) == ("failed", False)
    assert proof.message.startswith("stopped by ann: the wrong day")


def test_a_stop_of_a_backfill_leaves_the_stream_alone(project: SmallProject) -> None:
    name, plane = project.declare("daily"), project.plane()
    stream = plane.runtime.start(DriverRun(name, "stream", "run-1"), "d").driver
    is_at_work(plane, name)
    assert stop_backfill(plane, name, "ann", "") is None
    backfill_at_work(project, name)
    assert stop_backfill(plane, name, "ann", "") is not None
    eventually(lambda: plane.running(name, "backfill") is None, "it has ended")
    running = plane.running(name)
    assert running is not None
    assert (running.run_id, running.drain_requested_at) == (stream.run_id, None)


def test_a_run_is_stopped_for_a_goal_only_while_it_is_that_run(project: SmallProject) -> None:
    """For example, its task is marked as failed after another run has started."""
    name, plane = project.declare("daily"), project.plane()
    driver = backfill_at_work(project, name)
    earlier = finish_of(driver).model_copy(update={"started_at": driver.started_at - timedelta(minutes=1)})
    stop_run(plane, earlier, "airflow", "its task was marked as failed")
    running = plane.running(name, "backfill")
    assert running is not None
    assert running.drain_requested_at is None
    stop_run(plane, finish_of(driver), "airflow", "its task was marked as failed")
    eventually(lambda: plane.running(name, "backfill") is None, "it has ended")


def test_a_repeated_command_finds_the_backfill_that_carries_out_its_plan(project: SmallProject) -> None:
    name, plane = project.declare("daily"), project.plane()
    driver = backfill_at_work(project, name)
    again = backfill_run(name, PLAN)
    assert again.run_id != driver.run_id
    assert start_bounded(plane, again, same_work(plane, again)).run_id == driver.run_id
    other = backfill_run(name, "ba9876543210")
    with pytest.raises(UnavailableError) as caught:
        start_bounded(plane, other, same_work(plane, other))
    assert caught.value.error_id == "TIDE-CTRL-008"
    assert f"tidemill backfill stop {name}" in caught.value.fix


def test_the_plan_of_a_run_stands_in_its_id() -> None:
    assert plan_of(backfill_run("orders", PLAN).run_id) == PLAN
    assert plan_of(backfill_run("orders", PLAN, "manual__2026-01-01T00:00:00+00:00").run_id) == PLAN
    assert plan_of("stream-20260101T000000Z-1f2e3d") is None
    requests = [backfill_run("orders", PLAN, "manual-1").run_id for _ in range(2)]
    assert requests[0] == requests[1]


class CannotStart:
    """A place where the newest driver is there and will never work."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def last_start(self, pipeline: str, slot: Slot = "main") -> StartedDriver | None:
        start = self._runtime.last_start(pipeline, slot)
        return (
            None
            if start is None
            else replace(start, stuck="pod tidemill-daily has not started: ImagePullBackOff")
        )


def test_a_backfill_whose_pod_cannot_start_ends_with_the_reason(project: SmallProject) -> None:
    name = project.declare("daily")
    driver = backfill_at_work(project, name)
    plane = replace(project.plane(), runtime=CannotStart(project.plane().runtime))  # type: ignore[arg-type]
    proof = prove(plane, finish_of(driver))
    assert (proof.state, proof.evidence["retry"], proof.evidence["stuck"]) == ("failed", True, True)
    assert "ImagePullBackOff" in proof.message

    end_stuck_driver(plane, finish_of(driver))

    eventually(lambda: project.plane().running(name, "backfill") is None, "it was killed")


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


def test_all_commits_of_a_run_are_found_however_many_a_stream_has_made_since(project: SmallProject) -> None:
    name, plane = project.declare("daily"), project.plane()
    first, last = (
        LogCommit(entry=commit_of(number, "run-1").entry.model_copy(update={"rows": 3})) for number in (0, 9)
    )
    beside = LogCommit(entry=commit_of(1, "stream-1").entry)
    write_log(plane.layout.table("bronze/daily"), [first, *[beside] * 1000, last, *[beside] * 200])
    begun_at = datetime.fromtimestamp(1_700_000_000, UTC)
    (table,) = tables_written(plane, name, {"run-1"}, begun_at)
    assert (table.version, table.rows, table.batch_ids) == (1002, 6, [0, 9])
    read = table.sources["source"]
    assert (read["start"], read["end"]) == ({"orders": {"0": 0}}, {"orders": {"0": 100}})
    assert (table.aside, table.rows, table.version) == ({}, 6, 1002)
    # Version N is of second N. Older ones are not looked at, but for what clocks may differ by.
    (table,) = tables_written(plane, name, {"run-1"}, begun_at + timedelta(seconds=600))
    assert table.rows == 3
    (table,) = tables_written(plane, name, {"run-1"}, begun_at + timedelta(seconds=60))
    assert table.rows == 6


def test_an_airflow_run_id_becomes_a_safe_run_id_always_the_same() -> None:
    scheduled = "scheduled__2026-01-01T00:00:00+00:00"
    assert run_id_of(scheduled) == run_id_of(scheduled)
    assert run_id_of(scheduled).startswith("scheduled__2026-01-01T00-00-00-00-00")
    assert run_id_of("a/b") != run_id_of("a:b")
    assert len(run_id_of("x" * 500)) <= LONGEST_RUN_ID
    assert not set(run_id_of("../../$(id)\n")) & set("/$()\n")


def test_a_run_says_which_rows_of_its_batches_are_in_no_table(project: SmallProject) -> None:
    name, plane = project.declare("daily"), project.plane()
    counts = {"rows": 3, "quarantined_rows": 2, "late_rows": 0, "no_event_time_rows": 5}
    batches = [LogCommit(entry=commit_of(n, "run-1").entry.model_copy(update=counts)) for n in (0, 1)]
    write_log(plane.layout.table("bronze/daily"), batches)
    (table,) = tables_written(plane, name, {"run-1"}, datetime.fromtimestamp(1_700_000_000, UTC))
    assert table.aside == {"quarantined": 4, "without event time": 10}
    assert (table.rows, table.version) == (6, 2)
