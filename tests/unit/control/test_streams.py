"""Reconciling, requests and their proof, with real processes."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import ENVIRONMENT, INCREMENTAL, STREAM, SmallProject
from tests.support.stream_requests import AT_ONCE, by_name, impatient, request, settled, until_ended
from tidemill.checkpoint.desired import read_desired
from tidemill.checkpoint.status import read_status, write_status
from tidemill.control.ask.goal import Goal, prove
from tidemill.control.ask.stream_request import begin, carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.restart_policy import class_of
from tidemill.control.plane import ControlPlane
from tidemill.control.stream_status import pipeline_states
from tidemill.errors import UsageError


def test_all_declared_streams_are_started_and_then_left(project: SmallProject) -> None:
    project.declare("orders")
    project.declare("returns")
    project.declare("daily", INCREMENTAL)
    assert by_name(reconcile_streams(project.plane())) == {"orders": "start", "returns": "start"}
    assert by_name(reconcile_streams(project.plane())) == {"orders": "leave", "returns": "leave"}


def test_a_stream_for_trying_out_is_started_by_hand(project: SmallProject) -> None:
    text = STREAM.replace("rate: {}", "socket: {port: 9999}").replace(
        "delta: {table: bronze/%(name)s}", "console: {}"
    )
    plane = project.plane()
    project.declare("trial", text)
    [outcome] = reconcile_streams(plane)
    assert (outcome.decision.action, outcome.decision.needs_human) == ("leave", False)
    assert outcome.decision.reason.endswith("tidemill start trial")
    assert carry_out(plane, request("start", "trial"), 30, lambda _: None).state == "done"


def test_one_broken_pipeline_stops_no_other(project: SmallProject) -> None:
    project.declare("orders")
    project.declare("broken", "descripton: a typo")
    plane = project.plane()
    project.declare("damaged")
    plane.store.write_json(plane.layout.desired("damaged"), {"state": "perhaps"})
    assert by_name(reconcile_streams(plane)) == {"broken": "refused", "damaged": "failed", "orders": "start"}


def test_a_driver_that_was_killed_is_started_again_and_its_end_remembered(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    reconcile_streams(plane)
    first = settled(plane, Goal(pipeline=name, kind="progress"))
    os.kill(int(first.evidence["process"].split()[1]), signal.SIGKILL)
    until_ended(plane, name)
    assert by_name(reconcile_streams(plane, AT_ONCE)) == {name: "start"}
    assert [(e.result, e.progressed) for e in plane.history(name).read()] == [("killed", True)]


def test_a_driver_that_never_reaches_its_first_batch_is_held_in_the_end(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "crash")
    decisions = []
    for _ in range(6):
        outcome = reconcile_streams(plane, AT_ONCE)[0]
        decisions.append(outcome.decision.action)
        until_ended(plane, name)
    assert decisions == ["start"] * 4 + ["hold"] * 2
    project.behave(name, "run")
    assert carry_out(plane, request("start"), 30, lambda _: None).state == "done"


def test_the_environment_says_how_often_a_driver_is_started(project: SmallProject) -> None:
    project.environ(ENVIRONMENT + "restarts: {first_delay: 1 second, fruitless_limit: 1}\n")
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "crash")
    reconcile_streams(plane)
    until_ended(plane, name)
    [state] = pipeline_states(plane, {name: plane.look_at(name)})
    assert (state.decision.action, state.decision.runbook) == ("hold", "no-progress-over-restarts")
    assert by_name(reconcile_streams(plane)) == {name: "hold"}


def test_a_refusing_driver_is_started_once(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "exit 66")
    reconcile_streams(plane, AT_ONCE)
    until_ended(plane, name)
    outcome = reconcile_streams(plane, AT_ONCE)[0]
    assert outcome.decision.action == "refused"
    assert "TIDE-TEST-001" in outcome.decision.reason


def test_a_fenced_driver_waits_for_silence_of_the_newer_one(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.control.decide.reconcile.LONGEST_SILENCE_OF_NEWER", timedelta(0))
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "exit 75")
    reconcile_streams(plane)
    until_ended(plane, name)
    own = read_status(plane.store, plane.layout, name)
    assert own is not None
    soon = datetime.now(UTC) + timedelta(minutes=1)
    newer = own.model_copy(update={"run_id": "elsewhere", "epoch": 8, "updated_at": soon})
    write_status(plane.store, plane.layout.status(name), newer)
    assert by_name(reconcile_streams(plane)) == {name: "leave"}
    write_status(plane.store, plane.layout.status(name), own)
    assert by_name(reconcile_streams(plane)) == {name: "start"}


def test_a_running_driver_whose_file_is_deleted_is_left_and_reported(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    reconcile_streams(plane)
    (project.folder / "conf" / "pipelines" / "orders.yaml").unlink()
    outcome = reconcile_streams(plane)[0]
    assert outcome.decision.action == "refused"
    assert plane.running(name) is not None
    assert carry_out(plane, request("stop"), 30, lambda _: None).state == "done"


def test_start_is_proven_by_a_committed_batch(project: SmallProject) -> None:
    project.declare("orders")
    proof = carry_out(project.plane(), request("start", run_id="run-7"), 30, lambda _: None)
    assert proof.state == "done"
    assert (proof.evidence["run_id"], proof.evidence["batch_id"], proof.evidence["epoch"]) == ("run-7", 0, 1)


def test_start_on_an_empty_source_is_proven_by_waiting(project: SmallProject) -> None:
    project.behave(project.declare("orders"), "idle")
    proof = carry_out(project.plane(), request("start"), 30, lambda _: None)
    assert (proof.state, proof.evidence["batch_id"]) == ("done", None)


def test_waiting_for_a_source_to_come_back_is_no_proof(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "away")
    goal = begin(plane, request("start"))
    eventually(lambda: "TIDE-TEST-001" in prove(plane, goal).message, "the driver tells what it waits for")
    assert prove(plane, goal).state == "pending"


def test_mere_life_is_no_proof(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "starting")
    proof = carry_out(plane, request("start"), 2, lambda _: None)
    assert proof.state == "failed"
    assert plane.running(name) is not None


def test_a_status_of_an_earlier_start_is_no_proof(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    carry_out(plane, request("start", run_id="same"), 30, lambda _: None)
    carry_out(plane, request("stop"), 30, lambda _: None)
    project.behave(name, "starting")
    assert carry_out(plane, request("start", run_id="same"), 2, lambda _: None).state == "failed"


def test_a_start_whose_driver_fails_tells_why_and_where(project: SmallProject) -> None:
    project.behave(project.declare("orders"), "exit 66")
    proof = carry_out(project.plane(), request("start"), 30, lambda _: None)
    assert proof.state == "failed"
    assert proof.evidence["exit_code"] == 66
    assert "TIDE-TEST-001" in proof.message


def test_stop_is_proven_by_the_receipt_and_stays(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    carry_out(plane, request("start", run_id="run-7"), 30, lambda _: None)
    proof = carry_out(plane, request("stop", reason="broker move"), 30, lambda _: None)
    assert (proof.state, proof.evidence["result"], proof.evidence["run_id"]) == ("done", "clean", "run-7")
    assert by_name(reconcile_streams(plane)) == {name: "leave"}
    assert plane.running(name) is None


def test_stop_of_a_stream_that_never_ran_is_done(project: SmallProject) -> None:
    project.declare("orders")
    assert carry_out(project.plane(), request("stop"), 30, lambda _: None).state == "done"


def test_a_forced_end_fails_a_stop_but_not_a_restart(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "forced")
    carry_out(plane, request("start"), 30, lambda _: None)
    assert carry_out(plane, request("restart"), 30, lambda _: None).state == "done"
    stopped = carry_out(plane, request("stop"), 30, lambda _: None)
    assert (stopped.state, stopped.evidence["result"]) == ("failed", "forced")


def test_a_driver_deaf_to_its_drain_is_killed_after_the_grace_period_and_the_stop_fails(
    project: SmallProject,
) -> None:
    name, plane = project.declare("orders"), impatient(project.plane())
    project.behave(name, "deaf")
    carry_out(plane, request("start"), 30, lambda _: None)
    assert carry_out(plane, request("stop"), 30, lambda _: None).state == "failed"
    until_ended(plane, name)


def test_restart_drains_the_old_driver_and_proves_the_new_one(project: SmallProject) -> None:
    project.declare("orders")
    plane = project.plane()
    carry_out(plane, request("start", run_id="old"), 30, lambda _: None)
    proof = carry_out(plane, request("restart", run_id="new"), 30, lambda _: None)
    assert (proof.state, proof.evidence["run_id"], proof.evidence["epoch"]) == ("done", "new", 2)


def test_a_restart_goes_on_with_the_driver_that_a_reconciliation_has_started_meanwhile(
    project: SmallProject,
) -> None:
    name, plane = project.declare("orders"), project.plane()
    carry_out(plane, request("start"), 30, lambda _: None)
    asked = request("restart")
    goal = begin(plane, asked)
    until_ended(plane, name)
    # Between two looks of who waits for the old driver's end.
    assert by_name(reconcile_streams(plane, AT_ONCE)) == {name: "start"}
    assert settled(plane, goal).state == "done"
    proof = settled(plane, begin(plane, asked))
    assert (proof.state, proof.evidence["epoch"]) == ("done", 2)


def test_a_repeated_restart_request_restarts_once(project: SmallProject) -> None:
    project.declare("orders")
    plane = project.plane()
    asked = request("restart", run_id="new")
    carry_out(plane, asked, 30, lambda _: None)
    proof = carry_out(project.plane(), asked, 30, lambda _: None)
    assert (proof.state, proof.evidence["epoch"]) == ("done", 1)


def test_an_incremental_pipeline_has_no_stream_to_start(project: SmallProject) -> None:
    project.declare("daily", INCREMENTAL)
    plane = project.plane()
    with pytest.raises(UsageError) as caught:
        begin(plane, request("start", "daily"))
    assert caught.value.error_id == "TIDE-CTRL-006"
    assert read_desired(plane.store, plane.layout, "daily") is None


def test_a_hung_driver_is_asked_to_end_then_killed_and_another_one_takes_its_place(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, plane = project.declare("orders"), impatient(project.plane())
    project.behave(name, "hang")
    reconcile_streams(plane)
    proof = settled(plane, Goal(pipeline=name, kind="progress"))
    project.behave(name, "run")
    assert by_name(reconcile_streams(plane)) == {name: "leave"}
    # The last sign of life of the driver is too old.
    monkeypatch.setattr("tidemill.engine.liveness.LEAST_SILENCE", timedelta(seconds=2))
    monkeypatch.setattr("tidemill.engine.liveness.SILENT_TRIGGERS", 0)

    def visits(action: str) -> bool:
        (outcome,) = reconcile_streams(plane, AT_ONCE)
        return outcome.decision.action == action

    eventually(lambda: visits("stop"), "it is seen to hang")
    eventually(lambda: visits("kill"), "it is deaf, and killed")
    eventually(lambda: visits("start"), "another one is started")
    again = settled(plane, Goal(pipeline=name, kind="progress"))
    assert (proof.evidence["epoch"], again.evidence["epoch"]) == (1, 2)
    # A driver that beats is left.
    eventually(lambda: (driver := plane.running(name)) is not None and driver.silence is not None, "it beats")
    assert visits("leave")


def test_a_driver_that_could_write_no_receipt_ends_as_its_heartbeat_says(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "exit 69")
    reconcile_streams(plane)
    until_ended(plane, name)
    for receipt in (project.folder / ".data/state/orders/receipts").iterdir():
        receipt.unlink()
    ending = plane.last_ending(name)
    assert ending is not None
    assert (ending.result, ending.exit_code, ending.cause) == ("failed", 69, "exit 69, TIDE-TEST-001")
    # The start is retried without a limit, and the stream is never held.
    assert class_of(ending) == "unavailable"


def progress_within(plane: ControlPlane, seconds: float) -> ControlPlane:
    spec = plane.environment.spec.model_copy(update={"progress_within": timedelta(seconds=seconds)})
    return replace(plane, environment=replace(plane.environment, spec=spec))


def test_a_stream_that_commits_nothing_is_told_of_and_one_that_finds_nothing_is_not(
    project: SmallProject,
) -> None:
    at_once = STREAM + "run: {trigger: 0 seconds}\n"
    for name, behaviour in (("empty", "idle"), ("gone", "away"), ("silent", "run"), ("ends", "exit 69")):
        project.behave(project.declare(name, at_once), behaviour)
    plane = progress_within(project.plane(), 1)

    expected = {
        "gone": "TIDE-TEST-001 As the test wants.",
        "silent": "is running, and was last heard of",
        "ends": "exit 69, TIDE-TEST-001",
    }

    def stalls() -> dict[str, str]:
        outcomes = reconcile_streams(plane, AT_ONCE)
        return {each.pipeline: each.stall.reason for each in outcomes if each.stall is not None}

    def are_told() -> bool:
        seen = stalls()
        return seen.keys() == expected.keys() and all(words in seen[name] for name, words in expected.items())

    # The driver that finds nothing says so again and again.
    eventually(are_told, "three of them make no progress, each for its own reason")
    assert "empty" not in stalls()
