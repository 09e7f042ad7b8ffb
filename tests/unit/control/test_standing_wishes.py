"""The wish that is in force: of several requests the last one, in whatever order they are carried out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.small_project import SmallProject
from tidemill.checkpoint.desired import Desired, read_desired, write_desired
from tidemill.control.ask.stream_request import StreamRequest, Verb, begin, carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.errors import UsageError


def request(verb: Verb, by: str = "ann", at: datetime | None = None) -> StreamRequest:
    asked_at = at or datetime.now(UTC)
    return StreamRequest("orders", verb, f"{verb}-{asked_at:%f}", asked_at, by)


def test_a_cleared_old_request_does_not_undo_a_newer_one(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    old = request("stop", at=datetime.now(UTC) - timedelta(hours=1))
    carry_out(plane, request("start"), 30, lambda _: None)
    with pytest.raises(UsageError) as caught:
        begin(plane, old)
    assert caught.value.error_id == "TIDE-CTRL-007"
    assert plane.running(name) is not None


def test_what_was_asked_last_wins_whichever_request_is_carried_out_last(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    asked_at = datetime.now(UTC) - timedelta(seconds=30)
    # Airflow's queue is long: both are carried out later than both were asked.
    stop = request("stop", at=asked_at)
    start = request("start", "bob", asked_at + timedelta(seconds=5))
    begin(plane, stop)
    assert carry_out(plane, start, 30, lambda _: None).state == "done"
    with pytest.raises(UsageError) as caught:
        begin(plane, stop)
    assert caught.value.error_id == "TIDE-CTRL-007"
    assert plane.running(name) is not None


def test_a_wish_that_does_not_tell_when_it_was_asked_counts_from_when_it_was_written(
    project: SmallProject,
) -> None:
    name, plane = project.declare("orders"), project.plane()
    document = {"v": 1, "state": "stopped", "by": "bob", "at": datetime.now(UTC).isoformat()}
    plane.store.write_json(plane.layout.desired(name), document)
    with pytest.raises(UsageError):
        begin(plane, request("start", at=datetime.now(UTC) - timedelta(minutes=1)))
    assert begin(plane, request("start")).kind == "progress"


def test_a_repeated_request_gives_no_new_restart_budget(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    asked = request("stop")
    begin(plane, asked)
    written = read_desired(plane.store, plane.layout, name)
    begin(plane, asked)
    assert read_desired(plane.store, plane.layout, name) == written


def test_a_wish_for_a_stopped_stream_outlives_the_reconciler(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    write_desired(plane.store, plane.layout, name, Desired(state="stopped", by="ann"))
    assert [outcome.decision.action for outcome in reconcile_streams(plane)] == ["leave"]
