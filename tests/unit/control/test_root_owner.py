"""A storage root belongs to one control plane; another one is refused until it takes the root over."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.small_project import SmallProject, small_project
from tests.support.stream_requests import by_name, impatient, request, settled
from tidemill.checkpoint.epochs import newest_epoch
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.checkpoint.receipts import newest_receipt
from tidemill.checkpoint.root_owner import check_started_by_owner, read_owner
from tidemill.control.ask.bounded_run import start_bounded
from tidemill.control.ask.goal import Goal, prove
from tidemill.control.ask.stream_request import begin, end_overdue
from tidemill.control.ask.takeover import plan_takeover, take_over
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun
from tidemill.control.local import local_identity
from tidemill.control.plane import ControlPlane
from tidemill.errors import DataError, FencedError, GateRefusedError

TAKEOVER = ("control", "takeover", "--apply", "--reason", "the other machine is gone")


@pytest.fixture
def project(project: SmallProject) -> SmallProject:
    """Return a project whose environment names its root by a full path."""
    project.environ(f"root: {project.folder}/.data\nkafka: {{bootstrap_servers: 'localhost:1'}}\n")
    project.declare("orders")
    return project


@pytest.fixture
def other(project: SmallProject, tmp_path: Path) -> Iterator[SmallProject]:
    """Yield another checkout, whose environment names the same root."""
    with small_project(tmp_path / "other") as made:
        made.environ(project.environment.file.read_text())
        made.declare("orders")
        yield made


@pytest.fixture
def elsewhere(
    other: SmallProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    """Return the command line of the other checkout."""
    monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_driver:fake_driver_command")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    return CommandLine(other.folder, capsys.readouterr)


def at_work(project: SmallProject) -> ControlPlane:
    """Return the project's control plane, whose driver has committed a batch."""
    plane = project.plane()
    assert by_name(reconcile_streams(plane)) == {"orders": "start"}
    assert settled(plane, Goal(pipeline="orders", kind="progress")).state == "done"
    return plane


def owner_of(project: SmallProject) -> str:
    """Return the control plane of a project, as errors name it."""
    folder = project.environment.run_folder
    return f"local, {folder}, id {local_identity.local_identity(folder).id[:8]}"


def actions(plane: ControlPlane) -> list[Callable[[], object]]:
    """Everything that starts, stops or reconciles drivers."""
    return [
        lambda: reconcile_streams(plane),
        lambda: begin(plane, request("start")),
        lambda: begin(plane, request("stop")),
        lambda: begin(plane, request("restart")),
        lambda: start_bounded(plane, DriverRun("orders", "incremental", "run-1")),
        lambda: start_bounded(plane, DriverRun("orders", "backfill", "run-1")),
    ]


def taken_over(project: SmallProject) -> None:
    """Let the control plane of the project take over the root."""
    plane = project.plane()
    take_over(plane, plan_takeover(plane, datetime.now(UTC)), "ann", "a test")


def test_a_second_control_plane_on_the_same_root_is_refused_and_changes_nothing(
    project: SmallProject, other: SmallProject
) -> None:
    plane = at_work(project)
    files = {path: path.read_bytes() for path in Path(plane.layout.root).rglob("*.json")}
    for act in actions(other.plane()):
        with pytest.raises(GateRefusedError) as caught:
            act()
        assert (caught.value.error_id, caught.value.runbook) == ("TIDE-CTRL-010", "other-control-plane")
        assert caught.value.facts["owner"] == owner_of(project)
    assert other.plane().running("orders") is None
    assert {path: path.read_bytes() for path in Path(plane.layout.root).rglob("*.json")} == files
    assert by_name(reconcile_streams(project.plane())) == {"orders": "leave"}


def test_a_refusal_tells_two_control_planes_of_one_folder_apart(project: SmallProject) -> None:
    plane = at_work(project)
    (project.environment.run_folder / "control-plane.id").unlink()
    with pytest.raises(GateRefusedError) as caught:
        begin(project.plane(), request("stop"))
    facts = caught.value.facts
    assert facts["owner"] == str(read_owner(plane.store, plane.layout))
    assert facts["this_is"] == owner_of(project)
    assert facts["owner"] != facts["this_is"]


@pytest.mark.parametrize(
    "verb",
    [
        ("start", "orders"),
        ("stop", "orders"),
        ("restart", "orders"),
        ("run", "orders"),
        ("checkpoint", "hold", "orders", "--reason", "no"),
        ("checkpoint", "release", "orders", "by-hand", "--apply", "--reason", "no"),
    ],
    ids=" ".join,
)
def test_every_verb_that_changes_something_is_refused_elsewhere(
    project: SmallProject, elsewhere: CommandLine, verb: tuple[str, ...]
) -> None:
    plane = project.plane()
    plane.own()
    assert elsewhere(*verb) == 1
    assert "TIDE-CTRL-010" in elsewhere.err
    assert read_holds(plane.store, plane.layout, "orders") == []


def test_reading_is_refused_to_nobody_and_says_whose_the_pipelines_are(
    project: SmallProject, elsewhere: CommandLine
) -> None:
    at_work(project)
    (state,) = elsewhere.json("status")
    assert (state["actual"], state["owner"]["place"]) == ("running", str(project.environment.run_folder))
    assert state["next"]["reason"] == f"another control plane's: {owner_of(project)}"
    assert elsewhere("ledger", "orders") == 0
    assert elsewhere("plan", "orders") == 0
    shown = elsewhere.json("control", "show")
    assert shown["owner"]["id"] == project.plane().runtime.identity().id != shown["this"]["id"]
    assert elsewhere("control", "takeover") == 0
    assert "Nothing was done" in elsewhere.out
    assert read_owner(project.plane().store, project.plane().layout).id == shown["owner"]["id"]  # type: ignore[union-attr]


def test_all_processes_of_a_machine_that_share_a_run_folder_are_one_control_plane(
    project: SmallProject,
) -> None:
    identities = {project.plane().runtime.identity() for _ in range(3)}
    assert len(identities) == 1
    assert [project.plane().own() for _ in range(3)] == [None] * 3


def test_of_racing_first_starts_one_owns_the_root(project: SmallProject, tmp_path: Path) -> None:
    text = project.environment.file.read_text()
    planes = []
    for number in range(8):
        folder = tmp_path / f"checkout-{number}"
        shutil.copytree(project.folder / "conf", folder / "conf")
        assert (folder / "conf/environments/local.yaml").read_text() == text
        planes.append(SmallProject(folder).plane())

    def owns(plane: ControlPlane) -> bool:
        try:
            plane.own()
        except GateRefusedError:
            return False
        return True

    with ThreadPoolExecutor(len(planes)) as pool:
        owners = list(pool.map(owns, planes))
    assert owners.count(True) == 1


def test_a_copy_of_the_run_folder_is_another_control_plane(
    project: SmallProject, other: SmallProject
) -> None:
    project.plane().own()
    copy = other.environment.run_folder / local_identity.FILE
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(project.environment.run_folder / local_identity.FILE, copy)
    with pytest.raises(GateRefusedError):
        other.plane().own()


def test_the_same_folder_seen_from_another_machine_is_another_control_plane(
    project: SmallProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.plane().own()
    machine = tmp_path / "machine-id"
    machine.write_text("4711\n")
    monkeypatch.setattr(local_identity, "MACHINE_FILE", machine)
    with pytest.raises(GateRefusedError):
        project.plane().own()


def test_a_takeover_is_planned_then_fences_off_what_runs_and_is_on_record(
    project: SmallProject, elsewhere: CommandLine, other: SmallProject
) -> None:
    plane = at_work(project)
    driver = plane.running("orders")
    assert driver is not None
    assert elsewhere("control", "takeover") == 0
    assert f"run {driver.run_id}, running" in elsewhere.out
    assert newest_epoch(plane.store, plane.layout, "orders") == 1
    assert elsewhere(*TAKEOVER, "--by", "ann") == 0, elsewhere.err
    # The driver over there is fenced off before its next batch.
    assert newest_epoch(plane.store, plane.layout, "orders") == 2
    (entry,) = read_audit(plane.store, plane.layout)
    assert (entry.verb, entry.by, entry.why) == ("takeover", "ann", "the other machine is gone")
    assert entry.before is not None
    assert entry.before["id"] == plane.runtime.identity().id
    with pytest.raises(GateRefusedError) as caught:
        reconcile_streams(plane)
    assert caught.value.facts["by"] == "ann"
    assert by_name(reconcile_streams(other.plane())) == {"orders": "start"}


def test_a_takeover_that_died_half_way_starts_nothing_until_it_is_repeated(
    project: SmallProject, other: SmallProject, elsewhere: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = at_work(project)

    def dies(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tidemill.control.ask.takeover.claim_epoch", dies)
        with pytest.raises(KeyboardInterrupt):
            taken_over(other)
    with pytest.raises(GateRefusedError) as caught:
        reconcile_streams(other.plane())
    assert caught.value.error_id == "TIDE-CTRL-011"
    with pytest.raises(GateRefusedError) as caught:
        reconcile_streams(plane)
    assert caught.value.error_id == "TIDE-CTRL-010"
    assert elsewhere(*TAKEOVER) == 0, elsewhere.err
    assert newest_epoch(plane.store, plane.layout, "orders") == 2
    assert by_name(reconcile_streams(other.plane())) == {"orders": "start"}


def test_a_takeover_by_who_owns_the_root_does_nothing(project: SmallProject, elsewhere: CommandLine) -> None:
    assert elsewhere("start", "orders") == 0, elsewhere.err
    assert elsewhere(*TAKEOVER) == 0
    assert "belongs to this control plane" in elsewhere.out
    assert newest_epoch(project.plane().store, project.plane().layout, "orders") == 1
    assert read_audit(project.plane().store, project.plane().layout) == []


def test_a_protected_root_is_taken_over_only_with_an_approval(
    project: SmallProject, other: SmallProject, elsewhere: CommandLine
) -> None:
    project.plane().own()
    other.environ(other.environment.file.read_text() + "protected: true\n")
    assert elsewhere(*TAKEOVER) == 1
    assert elsewhere.err.startswith("TIDE-CKPT-036")
    assert elsewhere(*TAKEOVER, "--by", "ann", "--approved-by", "bob") == 0


def test_a_damaged_record_of_the_owner_is_told_and_mended_by_a_takeover(
    project: SmallProject, elsewhere: CommandLine, other: SmallProject
) -> None:
    plane = project.plane()
    plane.own()
    for damage in (b"", b"{}"):
        plane.store.write(plane.layout.control, damage)
        with pytest.raises(DataError) as caught:
            other.plane().own()
        assert (caught.value.error_id, caught.value.runbook) == ("TIDE-CTRL-012", "other-control-plane")
        (state,) = elsewhere.json("status")
        assert "TIDE-CTRL-012" in state["next"]["reason"]
        assert elsewhere(*TAKEOVER) == 0, elsewhere.err
        other.plane().own()


def test_a_driver_that_its_place_starts_again_after_a_takeover_ends_and_touches_nothing(
    project: SmallProject, other: SmallProject
) -> None:
    plane = project.plane()
    plane.own()
    taken_over(other)
    # Decided before the takeover, carried out after it.
    driver = plane.runtime.start(DriverRun("orders", "stream", "run-1"), "d1").driver
    eventually(lambda: plane.running("orders") is None, "the driver has ended")
    ending = plane.last_ending("orders")
    assert ending is not None
    assert (ending.run_id, ending.exit_code) == (driver.run_id, FencedError.exit_code)
    assert newest_epoch(plane.store, plane.layout, "orders") == 0
    receipt = newest_receipt(plane.store, plane.layout, "orders")
    assert receipt is not None
    assert (receipt.error or {})["id"] == "TIDE-RUN-005"


def test_a_driver_that_a_person_starts_answers_for_itself(project: SmallProject) -> None:
    plane = project.plane()
    plane.own()
    check_started_by_owner(plane.store, plane.layout, None)
    check_started_by_owner(plane.store, plane.layout, plane.runtime.identity().id)


def test_who_lost_the_root_kills_no_driver(project: SmallProject, other: SmallProject) -> None:
    project.behave("orders", "deaf")
    plane = impatient(at_work(project))
    driver = plane.running("orders")
    assert driver is not None
    plane.runtime.drain(driver)
    taken_over(other)
    goal = Goal(pipeline="orders", kind="stopped")
    eventually(lambda: prove(plane, goal).state == "overdue", "the drain is overdue")
    with pytest.raises(GateRefusedError):
        end_overdue(plane, goal)
    assert plane.running("orders") is not None
