"""Visits side by side: what is damaged, slow or away for one stream is so for this one alone."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.small_project import INCREMENTAL, SmallProject
from tests.support.stream_requests import by_name, request, settled, until_ended
from tests.support.troubled_stores import FlakyStore, HangingStore
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.control.ask.goal import Goal
from tidemill.control.ask.stream_request import carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.side_by_side import Limits, side_by_side
from tidemill.control.decide.visit import LOOKS
from tidemill.control.local.drain_note import drain_note
from tidemill.control.plane import ControlPlane

SHORT = Limits(at_once=4, each_seconds=0.5, all_seconds=20)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.control.decide.visit.PAUSE_SECONDS", 0)


def at_work(project: SmallProject, *names: str) -> ControlPlane:
    """Return streams that have committed a batch."""
    for name in names:
        project.declare(name)
    plane = project.plane()
    reconcile_streams(plane)
    for name in names:
        assert settled(plane, Goal(pipeline=name, kind="progress")).state == "done"
    return plane


@pytest.mark.parametrize("damage", ["", "{", "[]", "null"])
def test_a_damaged_record_of_a_driver_stops_no_other_stream(
    project: SmallProject, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    plane = at_work(project, "orders", "returns", "visits")
    record = project.environment.run_folder / "returns.json"
    kept = record.read_text()
    record.write_text(damage)
    outcomes = reconcile_streams(plane)
    assert by_name(outcomes) == {"orders": "leave", "returns": "failed", "visits": "leave"}
    assert outcomes[1].decision.reason.startswith("TIDE-CTRL-001")
    tidemill = CommandLine(project.folder, capsys.readouterr)
    actual = {state["pipeline"]: state["problem"] for state in tidemill.json("status")}
    assert actual == {"orders": None, "returns": "TIDE-CTRL-001", "visits": None}
    record.write_text(kept)


def test_a_record_that_cannot_be_reached_is_looked_for_again_and_stops_no_other_stream(
    project: SmallProject,
) -> None:
    plane = at_work(project, "orders", "returns")
    record = project.environment.run_folder / "returns.json"
    aside = record.rename(record.with_suffix(".aside"))
    record.mkdir()
    outcomes = reconcile_streams(plane)
    assert by_name(outcomes) == {"orders": "leave", "returns": "unseen"}
    assert outcomes[1].decision.reason.startswith("TIDE-CTRL-014")
    record.rmdir()
    aside.rename(record)


@pytest.mark.parametrize("damage", ["", "[]", "7", '{"run_id": "run-1"}', "\0"])
def test_a_damaged_note_of_a_drain_is_none(project: SmallProject, damage: str) -> None:
    plane = at_work(project, "orders")
    drain_note(project.environment.run_folder / "orders.json").write_text(damage)
    assert by_name(reconcile_streams(plane)) == {"orders": "leave"}


def test_a_storage_error_that_passes_is_nobodys_business(project: SmallProject) -> None:
    project.declare("orders")
    plane = project.plane()
    flaky = FlakyStore(plane.layout.root, plane.layout.state("orders"), LOOKS - 1)
    assert by_name(reconcile_streams(replace(plane, store=flaky))) == {"orders": "start"}
    assert flaky.failures == 0


@pytest.mark.parametrize("kind", ["object store", "disk"])
def test_storage_that_is_away_for_one_stream_changes_nothing_of_it_and_needs_no_human_yet(
    project: SmallProject, kind: str
) -> None:
    plane = at_work(project, "orders", "returns")
    before = plane.running("returns")
    folder = Path(plane.layout.state("returns"))
    if kind == "object store":
        plane = replace(plane, store=FlakyStore(plane.layout.root, str(folder)))
    else:
        aside = folder.rename(folder.with_name("aside"))
        folder.write_text("not a folder any more")
    outcomes = reconcile_streams(plane)
    assert by_name(outcomes) == {"orders": "leave", "returns": "unseen"}
    assert not any(outcome.decision.needs_human for outcome in outcomes)
    assert outcomes[1].decision.runbook == "storage-unavailable"
    assert plane.running("returns") == before
    if kind == "disk":
        folder.unlink()
        aside.rename(folder)
        assert by_name(reconcile_streams(plane)) == {"orders": "leave", "returns": "leave"}


def test_storage_that_is_away_altogether_is_told_of_every_stream(project: SmallProject) -> None:
    plane = at_work(project, "orders", "returns")
    away = FlakyStore(plane.layout.root, plane.layout.root)
    outcomes = reconcile_streams(replace(plane, store=away))
    assert by_name(outcomes) == {"orders": "unseen", "returns": "unseen"}


def test_a_stream_whose_storage_hangs_holds_up_no_other_and_each_is_told_when_it_ends(
    project: SmallProject,
) -> None:
    names = [project.declare(f"stream_{number}") for number in range(6)]
    plane = project.plane()
    hanging = HangingStore(plane.layout.root, plane.layout.state(names[0]))
    told: list[str] = []
    try:
        outcomes = reconcile_streams(
            replace(plane, store=hanging), limits=SHORT, tell=lambda outcome: told.append(outcome.pipeline)
        )
        assert by_name(outcomes) == {**dict.fromkeys(names, "start"), names[0]: "unseen"}
        assert (sorted(told), told[-1]) == (names, names[0])
        assert "took too long" in outcomes[0].decision.reason
    finally:
        hanging.let_go()


def test_a_visit_that_wakes_up_late_changes_nothing(project: SmallProject) -> None:
    name, plane = project.declare("orders"), project.plane()
    hanging = HangingStore(plane.layout.root, plane.layout.state(name))
    assert by_name(reconcile_streams(replace(plane, store=hanging), limits=SHORT)) == {name: "unseen"}
    hanging.let_go()
    assert hanging.returned.wait(30)
    for thread in threading.enumerate():
        if thread.name == f"visit-{name}":
            thread.join(30)
    assert plane.runtime.last_start(name) is None


def test_a_pipeline_that_is_no_stream_is_not_visited_unless_a_driver_holds_its_place(
    project: SmallProject,
) -> None:
    name, plane = project.declare("daily", INCREMENTAL), project.plane()
    write_desired(plane.store, plane.layout, name, Desired(state="running", by="ann"))
    assert reconcile_streams(plane) == []
    project.declare(name)
    assert carry_out(plane, request("start", name), 30, lambda _: None).state == "done"
    project.declare(name, INCREMENTAL)
    assert by_name(reconcile_streams(plane)) == {name: "stop"}
    until_ended(plane, name)
    assert reconcile_streams(plane) == []


def test_no_more_than_so_many_are_at_work_at_once_and_all_of_them_come() -> None:
    lock, gate = threading.Lock(), threading.Semaphore(0)
    busy, most = set[str](), [0]

    def act(name: str, _is_late: object) -> str:
        with lock:
            busy.add(name)
            most[0] = max(most[0], len(busy))
        gate.acquire(timeout=30)
        with lock:
            busy.remove(name)
        return name.upper()

    names = [f"n{number}" for number in range(20)]
    found = side_by_side(names, act, Limits(at_once=5, each_seconds=30, all_seconds=30))

    def let_go() -> None:
        for _ in names:
            eventually(lambda: bool(busy), "one is at work")
            gate.release()

    threading.Thread(target=let_go, daemon=True).start()
    assert dict(found) == {name: name.upper() for name in names}
    assert most[0] == 5


def test_when_the_time_for_all_is_over_those_that_were_not_reached_are_named() -> None:
    gate = threading.Event()

    def act(name: str, is_late: object) -> str:
        gate.wait(30)
        return name

    limits = Limits(at_once=2, each_seconds=30, all_seconds=0.3)
    assert dict(side_by_side(["a", "b", "c"], act, limits)) == dict.fromkeys("abc")
    gate.set()
