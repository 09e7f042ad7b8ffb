"""Drivers that are asked to stop and do not: deaf ones, those of a lost node, and half-asked ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.eventually import eventually
from tests.support.lost_node import PlaceOfALostNode, asked_to_stop
from tests.support.small_project import SmallProject
from tests.support.stream_requests import impatient
from tidemill.checkpoint.receipts import newest_receipt
from tidemill.control.ask.goal import Goal
from tidemill.control.ask.proof import prove_stopped
from tidemill.control.ask.stream_request import StreamRequest, Verb, carry_out, end_overdue
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun
from tidemill.control.local.drain_note import write_drain_note
from tidemill.control.local.driver_record import read_record
from tidemill.control.plane import ControlPlane

GRACE = timedelta(minutes=2)


def request(verb: Verb, run_id: str = "run-2") -> StreamRequest:
    return StreamRequest("orders", verb, run_id, datetime.now(UTC), by="ann")


@pytest.fixture
def lost(project: SmallProject) -> tuple[ControlPlane, PlaceOfALostNode]:
    project.declare("orders")
    plane = project.plane()
    place = PlaceOfALostNode(plane.runtime, asked_to_stop(GRACE + timedelta(seconds=10)))
    return replace(plane, runtime=place), place


@pytest.mark.parametrize("verb", ["restart", "start", "stop"])
def test_a_driver_that_outlives_its_kill_is_killed_once_and_waited_for_until_the_time_is_over(
    lost: tuple[ControlPlane, PlaceOfALostNode], verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.control.ask.stream_request.POLL_SECONDS", 0.25)
    plane, place = lost
    told: list[str] = []
    proof = carry_out(plane, request(verb), 1, told.append)
    assert proof.state == "failed"
    assert "no proof within 1 s" in proof.message
    assert "it was killed, and is still there" in proof.message
    assert len(place.kills) == 1
    assert place.looks < 20
    assert len(told) == len(set(told))


def test_a_new_drain_is_overdue_again_though_the_one_before_ended_in_a_kill(
    lost: tuple[ControlPlane, PlaceOfALostNode],
) -> None:
    plane, place = lost
    goal = end_overdue(plane, Goal(pipeline="orders", kind="stopped"))
    assert end_overdue(plane, goal).killed_drain == place.driver.drain_requested_at
    place.driver = asked_to_stop(GRACE + timedelta(seconds=5))
    proof = prove_stopped(plane, "orders", datetime.now(UTC), killed_drain=goal.killed_drain)
    assert proof.state == "overdue"


def test_a_driver_that_is_not_overdue_is_not_killed_in_the_place_of_one_that_was(
    lost: tuple[ControlPlane, PlaceOfALostNode],
) -> None:
    plane, place = lost
    place.driver = asked_to_stop(timedelta(seconds=1))
    goal = Goal(pipeline="orders", kind="stopped")
    assert end_overdue(plane, goal) == goal
    assert place.kills == []


def test_a_stuck_driver_is_told_to_a_human_and_still_asked_to_go(
    lost: tuple[ControlPlane, PlaceOfALostNode],
) -> None:
    plane, place = lost
    place.driver = replace(place.driver, stuck="its node is gone")
    (outcome,) = reconcile_streams(plane)
    assert (outcome.decision.needs_human, outcome.decision.reason) == (True, "its node is gone")
    assert (place.drains, place.kills) == ([place.driver], [])


def test_a_restart_of_a_deaf_driver_goes_on_once_that_is_gone(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "deaf")
    assert carry_out(plane, request("start", "run-1"), 30, lambda _: None).state == "done"
    project.behave(name, "run")
    proof = carry_out(impatient(plane), request("restart", "run-2"), 30, lambda _: None)
    assert (proof.state, proof.evidence["run_id"]) == ("done", "run-2")


def test_a_stop_fails_whoever_has_killed_the_driver_before_its_receipt(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "deaf")
    carry_out(plane, request("start", "run-1"), 30, lambda _: None)
    driver = plane.running(name)
    assert driver is not None
    plane.runtime.drain(driver)
    # Kill the driver as a kubelet does at the end of the grace period.
    plane.runtime.kill(driver)
    proof = carry_out(plane, request("stop"), 30, lambda _: None)
    assert (proof.state, proof.evidence["result"]) == ("failed", "killed")
    assert "did not drain, it was killed without a receipt" in proof.message
    assert prove_stopped(plane, name, datetime.now(UTC), final=False).state == "done"


def test_a_driver_that_is_stopped_before_it_has_begun_has_nothing_to_finish(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    driver = plane.runtime.start(DriverRun(name, "stream", "run-1"), "d1").driver
    plane.runtime.drain(driver)
    assert carry_out(plane, request("stop"), 30, lambda _: None).state == "done"


def test_a_drain_that_was_noted_and_not_told_is_told_at_the_next_visit(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    assert carry_out(plane, request("start", "run-1"), 30, lambda _: None).state == "done"
    file = project.environment.run_folder / f"{name}.json"
    record = read_record(file)
    assert record is not None
    # The requester died here.
    write_drain_note(file, record)
    (outcome,) = reconcile_streams(plane)
    assert (outcome.decision.action, outcome.decision.reason) == ("leave", "draining")
    eventually(lambda: plane.running(name) is None, "the driver has drained")
    receipt = newest_receipt(plane.store, plane.layout, name)
    assert receipt is not None
    assert (receipt.run_id, receipt.result) == ("run-1", "clean")
