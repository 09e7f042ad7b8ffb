"""Reconciliation of a running stream whose definition changed, and of a refused definition."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import ENVIRONMENT, STREAM, SmallProject
from tests.support.stream_requests import AT_ONCE, by_name, request, until_ended
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.holds import Hold, take_hold
from tidemill.control.ask.stream_request import StreamRequest, carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.report import Report, report_of
from tidemill.control.decide.visit import Outcome
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import Runtime, StartedDriver

RESTARTING = ENVIRONMENT + "on_change: restart\n"


def start(plane: ControlPlane) -> None:
    request = StreamRequest("orders", "start", "start-1", datetime.now(UTC), by="ann")
    assert carry_out(plane, request, 30, lambda _: None).state == "done"


class PlaceThatStartsAgain:
    """A runtime that notes what was put away."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.put_away_runs: list[StartedDriver] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def put_away(self, driver: StartedDriver) -> None:
        self.put_away_runs.append(driver)


def test_a_changed_definition_takes_the_place_of_the_running_one(project: SmallProject) -> None:
    name = project.declare("orders")
    project.environ(RESTARTING)
    plane = project.plane()
    start(plane)
    old = plane.running(name)
    assert by_name(reconcile_streams(project.plane())) == {name: "leave"}
    project.declare(name, STREAM.replace("rate: {}", "rate: {rows_per_second: 7}"))
    assert by_name(reconcile_streams(project.plane())) == {name: "stop"}
    until_ended(plane, name)
    assert by_name(reconcile_streams(project.plane())) == {name: "start"}
    new = plane.running(name)
    assert old is not None
    assert new is not None
    assert new.digest != old.digest


def start_both(project: SmallProject) -> ControlPlane:
    """Return two streams, both deployed with another definition while they run."""
    project.environ(RESTARTING)
    for name in ("first", "second"):
        project.declare(name)
    plane = project.plane()
    for name in ("first", "second"):
        assert carry_out(plane, request("start", name), 30, lambda _: None).state == "done"
    for name in ("first", "second"):
        project.declare(name, STREAM.replace("rate: {}", "rate: {rows_per_second: 7}"))
    return plane


def signal_both(plane: ControlPlane, number: signal.Signals) -> None:
    for name in ("first", "second"):
        driver = plane.running(name)
        assert driver is not None
        os.kill(int(driver.process.removeprefix("pid ")), number)


def the_one(outcomes: list[Outcome], action: str) -> Outcome:
    (found,) = (outcome for outcome in outcomes if outcome.decision.action == action)
    return found


def test_one_stream_after_the_other_gets_a_new_version_once_it_is_proven(project: SmallProject) -> None:
    plane = start_both(project)
    # A paused driver drains until it continues.
    signal_both(plane, signal.SIGSTOP)
    outcomes = reconcile_streams(project.plane())
    leads, follows = (the_one(outcomes, action).pipeline for action in ("stop", "leave"))
    assert "waits for its turn" in the_one(outcomes, "leave").decision.reason
    # While the old driver drains, nothing else begins either.
    assert by_name(reconcile_streams(project.plane())) == {leads: "leave", follows: "leave"}
    signal_both(plane, signal.SIGCONT)
    until_ended(plane, leads)
    assert by_name(reconcile_streams(project.plane())) == {leads: "start", follows: "leave"}
    eventually(
        lambda: by_name(reconcile_streams(project.plane())) == {leads: "leave", follows: "stop"},
        "the new driver has committed a batch",
    )


def test_a_stream_whose_records_are_damaged_stops_no_other_visit(project: SmallProject) -> None:
    plane = start_both(project)
    leads = the_one(reconcile_streams(project.plane()), "stop").pipeline
    until_ended(plane, leads)
    Path(plane.layout.status(leads)).write_text("{")
    outcomes = by_name(reconcile_streams(project.plane()))
    assert {name: action for name, action in outcomes.items() if name != leads} == {
        name: "leave" for name in ("first", "second") if name != leads
    }


def test_a_new_version_that_makes_no_progress_goes_no_further_and_is_reported(project: SmallProject) -> None:
    plane = start_both(project)
    for name in ("first", "second"):
        project.behave(name, "starting")
    leads = the_one(reconcile_streams(project.plane()), "stop").pipeline
    until_ended(plane, leads)
    assert by_name(reconcile_streams(project.plane()))[leads] == "start"
    later = datetime.now(UTC) + timedelta(minutes=11)
    outcomes = reconcile_streams(project.plane(), clock=lambda: later)
    waiting = next(outcome for outcome in outcomes if outcome.pipeline != leads)
    assert f"{leads} makes no progress" in waiting.decision.reason
    assert waiting.driver is not None
    assert report_of(Report(), outcomes, later).red[leads].kind == "no progress"


@pytest.mark.parametrize("rows", [9, None], ids=["a fix", "the version before"])
def test_a_version_that_makes_no_progress_gives_way_to(project: SmallProject, rows: int | None) -> None:
    plane = start_both(project)
    for name in ("first", "second"):
        project.behave(name, "starting")
    leads = the_one(reconcile_streams(project.plane()), "stop").pipeline
    until_ended(plane, leads)
    assert by_name(reconcile_streams(project.plane()))[leads] == "start"
    other = STREAM if rows is None else STREAM.replace("rate: {}", f"rate: {{rows_per_second: {rows}}}")
    for name in ("first", "second"):
        project.declare(name, other)
    later = datetime.now(UTC) + timedelta(minutes=11)
    outcomes = {found.pipeline: found for found in reconcile_streams(project.plane(), clock=lambda: later)}
    assert outcomes.pop(leads).decision.action == "stop"
    (follows,) = outcomes.values()
    assert follows.decision.action == "leave"


def test_a_stream_that_stops_the_wave_is_red_also_after_a_person_restarted_it(project: SmallProject) -> None:
    plane = start_both(project)
    for name in ("first", "second"):
        project.behave(name, "starting")
    leads = the_one(reconcile_streams(project.plane()), "stop").pipeline
    until_ended(plane, leads)
    assert by_name(reconcile_streams(project.plane()))[leads] == "start"
    later = datetime.now(UTC) + timedelta(minutes=11)
    wish = Desired(state="running", by="ann", at=later)
    write_desired(plane.store, plane.layout, leads, wish)
    outcomes = reconcile_streams(project.plane(), clock=lambda: later)
    trouble = report_of(Report(), outcomes, later).red[leads]
    assert trouble.kind == "no progress"
    assert "stops the wave" in trouble.words


def test_a_changed_definition_that_must_not_start_leaves_the_running_one(project: SmallProject) -> None:
    name = project.declare("orders")
    project.environ(RESTARTING)
    plane = project.plane()
    start(plane)
    old = plane.running(name)
    held = Hold(id="h1", by="ann", why="rewinding", at=datetime.now(UTC))
    assert take_hold(plane.store, plane.layout, name, held)
    project.declare(name, STREAM.replace("rate: {}", "rate: {rows_per_second: 7}"))
    outcome = reconcile_streams(project.plane())[0]
    assert (outcome.decision.action, outcome.decision.runbook) == ("refused", "hold")
    assert plane.running(name) == old


def test_a_refused_driver_is_put_away_where_its_place_would_start_it_again(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    project.behave(name, "exit 66")
    reconcile_streams(plane, AT_ONCE)
    until_ended(plane, name)
    place = PlaceThatStartsAgain(plane.runtime)
    reconcile_streams(replace(plane, runtime=place), AT_ONCE)
    assert place.put_away_runs == [plane.runtime.last_start(name)]
