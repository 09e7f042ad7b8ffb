"""A machine that cannot start processes: it is retried without a limit, shown red, and never a crash."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.fake_driver import fake_driver_command
from tests.support.small_project import ENVIRONMENT, SmallProject
from tests.support.stream_requests import AT_ONCE, by_name, request, until_ended
from tidemill.control.ask.stream_request import carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.remembered import with_ending
from tidemill.control.decide.restart_policy import backoff
from tidemill.control.driver_command import DriverRun
from tidemill.control.local.driver_record import START_GRACE, read_record, write_record
from tidemill.control.local.local_runtime import LocalRuntime
from tidemill.control.plane import ControlPlane
from tidemill.errors import UnavailableError
from tidemill.spec.project import Environment

# More than the kernel takes as one variable: it refuses the fork's exec, as it does without memory.
TOO_LARGE = {"TIDEMILL_TEST": "x" * 200_000}


def without_processes(project: SmallProject) -> ControlPlane:
    """Return a control plane whose machine makes no process of a driver."""
    plane = project.plane()
    runtime = LocalRuntime(project.environment, fake_driver_command, {**project.variables, **TOO_LARGE})
    return replace(plane, runtime=runtime)


def with_missing_program(project: SmallProject) -> ControlPlane:
    """Return a control plane whose drivers' program is gone, as in the middle of an upgrade."""

    def command(environment: Environment, run: DriverRun) -> list[str]:
        return [str(project.folder / "no-python"), *fake_driver_command(environment, run)[1:]]

    return replace(project.plane(), runtime=LocalRuntime(project.environment, command, project.variables))


@pytest.mark.parametrize("spoilt", [without_processes, with_missing_program])
def test_a_machine_that_makes_no_driver_holds_nothing_and_is_red_until_it_does(
    project: SmallProject, spoilt: Callable[[SmallProject], ControlPlane]
) -> None:
    name, plane = project.declare("orders"), spoilt(project)
    for _ in range(8):
        (outcome,) = reconcile_streams(plane, AT_ONCE)
        until_ended(plane, name)
    assert outcome.decision.action in ("start", "failed")
    assert outcome.decision.needs_human
    assert outcome.decision.runbook == "stream-does-not-start"
    endings = with_ending(plane.history(name).read(), plane.last_ending(name))
    assert {ending.result for ending in endings} == {"not_made"}
    assert len(endings) == 8

    assert by_name(reconcile_streams(project.plane(), AT_ONCE)) == {name: "start"}
    (outcome,) = reconcile_streams(project.plane(), AT_ONCE)
    assert (outcome.decision.action, outcome.decision.needs_human) == ("leave", False)


def test_it_is_tried_again_after_a_growing_wait(project: SmallProject) -> None:
    project.environ(ENVIRONMENT + "restarts: {first_delay: 4 minutes}\n")
    name, plane = project.declare("orders"), without_processes(project)
    (first,) = reconcile_streams(plane)
    assert first.decision.action == "failed"
    (second,) = reconcile_streams(plane)
    assert (second.decision.action, second.decision.needs_human) == ("wait", True)
    assert "TIDE-CTRL-009" in second.decision.reason
    (ending,) = plane.history(name).read()
    assert second.decision.until == ending.ended_at + backoff(name, 1, plane.environment.spec.restarts)
    assert (ending.result, (ending.error or {})["id"]) == ("not_made", "TIDE-CTRL-009")


def test_a_start_by_hand_says_that_no_process_could_be_made(project: SmallProject) -> None:
    project.declare("orders")
    with pytest.raises(UnavailableError) as caught:
        carry_out(without_processes(project), request("start"), 30, lambda _: None)
    assert caught.value.error_id == "TIDE-CTRL-009"
    assert "Argument list too long" in str(caught.value.facts["cause"])
    assert carry_out(project.plane(), request("start"), 30, lambda _: None).state == "done"


def test_a_start_whose_folder_is_gone_is_no_crash(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    logs = project.environment.run_folder / "logs"
    logs.mkdir(parents=True)
    shutil.rmtree(logs)
    logs.write_text("a file in the place of the folder")
    (outcome,) = reconcile_streams(plane, AT_ONCE)
    assert outcome.decision.reason.startswith("TIDE-CTRL-009")
    logs.unlink()
    assert by_name(reconcile_streams(plane, AT_ONCE)) == {name: "start"}


def test_a_process_that_never_signed_its_record_was_not_made(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    reconcile_streams(plane)
    carry_out(plane, request("stop"), 30, lambda _: None)
    file: Path = project.environment.run_folder / f"{name}.json"
    record = read_record(file)
    assert record is not None
    long_ago = datetime.now(UTC) - START_GRACE - timedelta(seconds=1)
    write_record(file, record.model_copy(update={"identity": None, "run_id": "x", "started_at": long_ago}))
    ending = plane.last_ending(name)
    assert ending is not None
    assert ending.result == "not_made"


def test_a_driver_that_dies_at_once_was_made_and_is_a_crash(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "crash")
    reconcile_streams(plane)
    until_ended(plane, name)
    ending = plane.last_ending(name)
    assert ending is not None
    assert ending.result == "killed"
