"""Reconciling, requests and their proof, with real processes."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import INCREMENTAL, SmallProject
from tidemill.checkpoint.desired import read_desired
from tidemill.checkpoint.status import read_status, write_status
from tidemill.control.goal import Goal, prove
from tidemill.control.plane import ControlPlane
from tidemill.control.proof import Proof
from tidemill.control.reconcile import Reconciler
from tidemill.control.restart_policy import RestartPolicy
from tidemill.control.stream_request import StreamRequest, begin, carry_out
from tidemill.control.streams import Outcome, reconcile_streams
from tidemill.errors import UsageError

# Restarts without waiting, so that a test sees several in a second.
AT_ONCE = Reconciler(RestartPolicy(first_delay=timedelta(0)))


def request(verb: str, name: str = "orders", *, at: datetime | None = None, **facts: Any) -> StreamRequest:
    asked_at = at or datetime.now(UTC)
    return StreamRequest(
        pipeline=name,
        verb=verb,
        run_id=facts.pop("run_id", f"{verb}-{asked_at:%f}"),
        at=asked_at,
        by="ann",
        **facts,
    )


def settled(plane: ControlPlane, goal: Goal) -> Proof:
    def proof() -> Proof | None:
        seen = prove(plane, goal)
        return seen if seen.state != "pending" else None

    return eventually(proof, f"{goal} is settled")


def by_name(outcomes: list[Outcome]) -> dict[str, str]:
    return {outcome.pipeline: outcome.decision.action for outcome in outcomes}


def until_ended(plane: ControlPlane, name: str) -> None:
    eventually(lambda: plane.running(name) is None, f"{name} has ended")


def test_all_declared_streams_are_started_and_then_left(project: SmallProject) -> None:
    project.declare("orders")
    project.declare("returns")
    project.declare("daily", INCREMENTAL)
    assert by_name(reconcile_streams(project.plane())) == {"orders": "start", "returns": "start"}
    assert by_name(reconcile_streams(project.plane())) == {"orders": "leave", "returns": "leave"}


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
    monkeypatch.setattr("tidemill.control.reconcile.LONGEST_SILENCE_OF_NEWER", timedelta(0))
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
    project.behave(project.declare("orders"), "away")
    proof = carry_out(project.plane(), request("start"), 2, lambda _: None)
    assert proof.state == "failed"
    assert "TIDE-TEST-001" in proof.message


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
    name, plane = project.declare("orders"), project.plane()
    at_once = plane.environment.spec.model_copy(update={"grace_period": timedelta(seconds=0.2)})
    plane = replace(plane, environment=replace(plane.environment, spec=at_once))
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
