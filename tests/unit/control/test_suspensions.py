"""A suspended stream: drained, left until its moment or until it is resumed, and back then, or red."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.small_project import INCREMENTAL, STREAM, SmallProject
from tests.support.stream_requests import by_name, request, settled, until_ended
from tidemill.checkpoint.desired import Desired, read_desired, write_desired
from tidemill.control.ask.goal import Goal, prove
from tidemill.control.ask.stream_request import StreamRequest, begin, carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.report import Report, report_of
from tidemill.control.decide.suspension import parse_until
from tidemill.control.plane import ControlPlane
from tidemill.errors import UsageError

TOMORROW = datetime.now(UTC) + timedelta(days=1)


def wish_of(asked: StreamRequest) -> Desired:
    return Desired(state=asked.state, by=asked.by, asked_at=asked.at, until=asked.until)


def carried_out(plane: ControlPlane, verb: str, **facts: Any) -> str:
    return carry_out(plane, request(verb, **facts), 30, lambda _: None).state


def refused(plane: ControlPlane, verb: str, **facts: Any) -> UsageError:
    before = read_desired(plane.store, plane.layout, "orders")
    with pytest.raises(UsageError) as caught:
        begin(plane, request(verb, **facts))
    assert read_desired(plane.store, plane.layout, "orders") == before
    return caught.value


def test_a_suspended_stream_is_drained_left_alone_and_comes_back_when_its_moment_has_passed(
    project: SmallProject,
) -> None:
    name, plane = project.declare("orders"), project.plane()
    assert carried_out(plane, "start") == "done"
    assert carried_out(plane, "suspend", until=TOMORROW, reason="broker move") == "done"
    assert plane.running(name) is None
    [just_before] = reconcile_streams(plane, clock=lambda: TOMORROW - timedelta(seconds=1))
    assert just_before.decision.action == "leave"
    assert just_before.decision.reason == (
        f"suspended until {TOMORROW:%Y-%m-%d %H:%M} UTC by ann: broker move"
    )
    assert by_name(reconcile_streams(plane, clock=lambda: TOMORROW)) == {name: "start"}
    assert settled(plane, Goal(pipeline=name, kind="progress")).state == "done"
    assert by_name(reconcile_streams(plane, clock=lambda: TOMORROW)) == {name: "leave"}


def test_a_suspension_that_nobody_carried_out_is_carried_out_by_the_next_visit(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    assert carried_out(plane, "start") == "done"
    write_desired(plane.store, plane.layout, name, wish_of(request("suspend", until=TOMORROW)))
    assert by_name(reconcile_streams(plane)) == {name: "stop"}
    until_ended(plane, name)
    assert by_name(reconcile_streams(plane)) == {name: "leave"}


def test_without_a_moment_it_stays_suspended_until_it_is_resumed(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    assert carried_out(plane, "suspend") == "done"
    [outcome] = reconcile_streams(plane, clock=lambda: TOMORROW + timedelta(days=3000))
    assert outcome.decision.action == "leave"
    assert outcome.decision.reason == "suspended until it is resumed by ann"
    assert carried_out(plane, "resume") == "done"
    assert plane.running(name) is not None
    # Resume again, as a script does that resumes all streams.
    assert carried_out(plane, "resume") == "done"


def test_what_is_asked_later_ends_a_suspension_or_makes_it_last(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    for verb in ("start", "restart"):
        carried_out(plane, "suspend", until=TOMORROW)
        assert carried_out(plane, verb) == "done"
        assert by_name(reconcile_streams(plane)) == {name: "leave"}
        assert plane.running(name) is not None
    carried_out(plane, "suspend", until=TOMORROW)
    carried_out(plane, "suspend", until=TOMORROW + timedelta(days=1))
    assert by_name(reconcile_streams(plane, clock=lambda: TOMORROW)) == {name: "leave"}
    carried_out(plane, "stop")
    assert by_name(reconcile_streams(plane, clock=lambda: TOMORROW + timedelta(days=2))) == {name: "leave"}


def test_a_stop_is_undone_by_no_suspension_and_by_no_resumption(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    carried_out(plane, "stop", reason="wrong data")
    for verb, until in (("suspend", TOMORROW), ("suspend", None), ("resume", None)):
        error = refused(plane, verb, until=until)
        assert error.error_id == "TIDE-CTRL-021"
        assert error.facts == {"pipeline": name, "standing": "stopped", "by": "ann", "reason": "wrong data"}


def test_what_runs_only_by_hand_is_not_started_by_the_end_of_a_suspension(project: SmallProject) -> None:
    text = STREAM.replace("rate: {}", "socket: {port: 9999}").replace(
        "delta: {table: bronze/%(name)s}", "console: {}"
    )
    plane = project.plane()
    project.declare("orders", text)
    assert refused(plane, "suspend", until=TOMORROW).error_id == "TIDE-CTRL-021"


def test_only_a_stream_is_suspended(project: SmallProject) -> None:
    plane = project.plane()
    project.declare("orders", INCREMENTAL)
    error = refused(plane, "suspend")
    assert error.error_id == "TIDE-CTRL-006"
    assert "incremental__orders" in error.fix
    assert refused(plane, "resume").error_id == "TIDE-CTRL-006"


@pytest.mark.parametrize(
    "text", ["soon", "6 pm", "2026-02-30T06:00:00Z", "0001-01-01T00:00:00+14:00", "9" * 99]
)
def test_a_moment_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_until(text)
    assert caught.value.error_id == "TIDE-CTRL-020"
    assert caught.value.facts == {"until": text[:40]}


@pytest.mark.parametrize(
    ("text", "hour"), [("2026-12-01T06:00:00Z", 6), ("2026-12-01T06:00", 6), ("2026-12-01T06:00:00+02:00", 4)]
)
def test_a_moment_is_in_utc_unless_it_says_otherwise(text: str, hour: int) -> None:
    assert parse_until(text) == datetime(2026, 12, 1, hour, tzinfo=UTC)


def test_a_moment_of_no_use_is_refused_and_nothing_stops(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    carried_out(plane, "start")
    past = datetime.now(UTC) - timedelta(seconds=1)
    assert refused(plane, "suspend", until=past).error_id == "TIDE-CTRL-020"
    assert refused(plane, "stop", until=TOMORROW).error_id == "TIDE-CTRL-020"
    assert by_name(reconcile_streams(plane)) == {name: "leave"}
    assert plane.running(name) is not None


def test_a_repeated_suspension_neither_lasts_longer_nor_stops_what_has_come_back(
    project: SmallProject,
) -> None:
    name, plane = project.declare("orders"), project.plane()
    asked = request("suspend", until=TOMORROW)
    begin(plane, asked)
    written = read_desired(plane.store, plane.layout, name)
    begin(plane, asked)
    assert read_desired(plane.store, plane.layout, name) == written
    # A day later.
    passed = replace(asked, until=datetime.now(UTC))
    write_desired(plane.store, plane.layout, name, wish_of(passed))
    assert by_name(reconcile_streams(plane)) == {name: "start"}
    with pytest.raises(UsageError) as caught:
        begin(plane, passed)
    assert caught.value.error_id == "TIDE-CTRL-020"
    # A request that still waits for the drain sees that it has ended.
    assert prove(plane, Goal(pipeline=name, kind="stopped", until=passed.until)).state == "done"
    assert plane.running(name) is not None


def test_a_stream_that_does_not_come_back_in_time_is_red_as_overdue(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    carried_out(plane, "start")
    carried_out(plane, "suspend", until=TOMORROW, reason="broker move")
    project.behave(name, "starting")
    soon, late = TOMORROW + timedelta(minutes=9), TOMORROW + timedelta(minutes=11)
    outcomes = reconcile_streams(plane, clock=lambda: soon)
    assert (by_name(outcomes), report_of(Report(), outcomes, soon).red) == ({name: "start"}, {})
    outcomes = reconcile_streams(plane, clock=lambda: late)
    trouble = report_of(Report(), outcomes, late).red[name]
    assert (trouble.kind, trouble.since) == ("overdue", TOMORROW)
    assert "broker move, and not back" in trouble.words
