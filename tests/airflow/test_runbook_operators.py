"""The tasks of the runbook DAGs on a real project, with its store and with drivers that are fake."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.conf_project import PIPELINE
from tests.support.eventually import eventually
from tests.support.pipelines_on_disk import PipelineOnDisk
from tests.support.runbook_run import WHEN, RunbookRun
from tests.support.small_project import ENVIRONMENT, SmallProject
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.desired import Desired, read_desired, write_desired
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.procedure.audit import AuditEntry, read_audit
from tidemill.control.ask.stream_request import StreamRequest, carry_out
from tidemill.errors import DataError, GateRefusedError, SpecError, UsageError

ORDERS = PIPELINE.replace("payload:\n  json: {schema: order.json}\n", "").replace(
    "event_time: {column: at, watermark: 10 minutes}\n", ""
)

# Exceptions that the retry policy treats as final (`test_retries.py`).
REFUSED = (UsageError, SpecError, DataError, GateRefusedError)


@pytest.fixture
def project(bare_project: SmallProject, monkeypatch: pytest.MonkeyPatch) -> SmallProject:
    # No broker answers here.
    monkeypatch.setattr("tidemill.sources.offsets.ANSWER_TIMEOUT_SECONDS", 0.1)
    bare_project.declare("orders", ORDERS)
    return bare_project


@pytest.fixture
def orders(project: SmallProject) -> PipelineOnDisk:
    """Return the pipeline after five batches."""
    return PipelineOnDisk(StorePlace("local", project.folder, {"root": ".data"})).ran(5)


@pytest.fixture
def skipped() -> Any:
    from airflow.sdk.exceptions import AirflowSkipException

    return AirflowSkipException


def start_stream(project: SmallProject) -> str:
    """Start the stream as a user, and return the driver's run id."""
    plane = project.plane()
    request = StreamRequest("orders", "start", "by-hand", WHEN - timedelta(hours=1), "ann")
    assert carry_out(plane, request, 60, lambda _: None).state == "done"
    driver = plane.running("orders")
    assert driver is not None
    return driver.run_id


def protect(project: SmallProject) -> None:
    project.environ(ENVIRONMENT + "protected: true\n")


def audit_of(project: SmallProject) -> AuditEntry:
    (entry,) = read_audit(project.plane().store, project.plane().layout, "orders")
    return entry


def wish_of(project: SmallProject) -> Desired:
    found = read_desired(project.plane().store, project.plane().layout, "orders")
    assert found is not None
    return found


REWIND = {"to": "2", "reason": "wrong unit", "dry_run": False}


def test_a_running_stream_is_stopped_rewound_and_started_again(
    project: SmallProject, orders: PipelineOnDisk
) -> None:
    before = start_stream(project)
    run = RunbookRun(project, "rewind", REWIND)
    assert run.stop()["run_id"] == before
    assert wish_of(project).state == "stopped"
    assert "batches 3-4 are undone" in run.plan()["text"].splitlines()
    done = run.apply()
    assert (orders.live, orders.ids) == ("g0002", list(range(30)))
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []
    entry = audit_of(project)
    assert (entry.verb, entry.by, entry.request_id) == ("rewind", "ann", done["request_id"])
    assert entry.why == "wrong unit (DAG run manual-1)"
    assert run.start()["batch_id"] == 0
    driver = project.plane().running("orders")
    assert driver is not None
    assert driver.run_id != before
    assert wish_of(project).state == "running"


def test_a_dry_run_shows_the_plan_and_touches_nothing(
    project: SmallProject, orders: PipelineOnDisk, skipped: Any
) -> None:
    before = orders.files
    run = RunbookRun(project, "rewind", {"to": "2"})
    with pytest.raises(skipped):
        run.stop()
    assert run.plan()["plan"]["batches_undone"] == [3, 4]
    for task in (run.apply, run.start):
        with pytest.raises(skipped):
            task()
    assert orders.files == before
    assert read_audit(orders.store, orders.resolved.layout) == []


def test_a_stream_that_a_person_has_stopped_stays_so(
    project: SmallProject, orders: PipelineOnDisk, skipped: Any
) -> None:
    write_desired(orders.store, orders.resolved.layout, "orders", Desired(state="stopped", by="bob"))
    run = RunbookRun(project, "rewind", REWIND)
    with pytest.raises(skipped):
        run.stop()
    run.plan()
    run.apply()
    assert orders.live == "g0002"
    with pytest.raises(skipped):
        run.start()
    assert wish_of(project).by == "bob"


def test_what_a_person_asks_meanwhile_wins(
    project: SmallProject, orders: PipelineOnDisk, skipped: Any
) -> None:
    start_stream(project)
    run = RunbookRun(project, "rewind", REWIND)
    run.stop()
    write_desired(orders.store, orders.resolved.layout, "orders", Desired(state="stopped", by="bob"))
    with pytest.raises(skipped):
        run.start()
    assert (wish_of(project).by, project.plane().running("orders")) == ("bob", None)


def test_a_plan_that_has_changed_since_is_not_carried_out(
    project: SmallProject, orders: PipelineOnDisk
) -> None:
    run = RunbookRun(project, "rewind", REWIND)
    run.plan()
    orders.ran_on(5, 6)
    before = orders.files
    with pytest.raises(REFUSED, match=r"^TIDE-CKPT-100[^\n]*\n.*changed=.*batches_undone"):
        run.apply()
    assert orders.files == before


@pytest.mark.parametrize("approver", ["", "ann"])
def test_a_protected_environment_needs_the_approval_of_somebody_else(
    project: SmallProject, orders: PipelineOnDisk, approver: str
) -> None:
    protect(project)
    run = RunbookRun(project, "rewind", REWIND)
    run.plan()
    if approver:
        run.approved_by(approver)
    with pytest.raises(REFUSED, match=r"^TIDE-CKPT-036"):
        run.apply()
    assert (orders.live, read_holds(orders.store, orders.resolved.layout, "orders")) == ("g0001", [])


def test_who_approves_is_named_in_the_audit(project: SmallProject, orders: PipelineOnDisk) -> None:
    protect(project)
    run = RunbookRun(project, "rewind", REWIND)
    run.plan()
    run.approved_by("bob")
    run.apply()
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert (audit_of(project).by, live.by) == ("ann, approved by bob", "ann, approved by bob")


def test_a_plan_that_is_made_anew_after_the_approval_is_asked_about_again(
    project: SmallProject, orders: PipelineOnDisk
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    protect(project)
    run = RunbookRun(project, "rewind", REWIND)
    run.plan()
    run.approved_by("bob")
    # A user clears the tasks `plan` and `apply`, but not `approve` between them.
    orders.ran_on(5, 6)
    run.plan()
    with pytest.raises(AirflowFailException, match=r"clear `approve`"):
        run.apply()
    assert orders.live == "g0001"
    run.approved_by("bob")
    run.apply()
    assert orders.live == "g0002"


def test_nobody_is_asked_where_there_is_nothing_to_approve(
    project: SmallProject, orders: PipelineOnDisk, skipped: Any
) -> None:
    from tidemill_airflow.approval import ApprovePlan

    assert orders.live == "g0001"
    task = ApprovePlan(task_id="approve", what="checkpoint repair")
    for params in ({}, {"dry_run": False, "reason": "torn"}):
        run = RunbookRun(project, "repair", params)
        run.plan()
        with pytest.raises(skipped):
            task.execute(run.context)


def test_a_plan_that_is_refused_leaves_the_stream_as_it_was(
    project: SmallProject, orders: PipelineOnDisk
) -> None:
    start_stream(project)
    run = RunbookRun(project, "rewind", {**REWIND, "to": "99"})
    run.stop()
    with pytest.raises(REFUSED, match=r"^TIDE-CKPT-"):
        run.plan()
    assert run.start()["batch_id"] == 0
    assert (wish_of(project).state, orders.live) == ("running", "g0001")


def test_a_cleared_run_repeats_nothing(project: SmallProject, orders: PipelineOnDisk) -> None:
    start_stream(project)
    run = RunbookRun(project, "rewind", REWIND)
    for task in (run.stop, run.plan, run.apply, run.start):
        task()
    with pytest.raises(REFUSED, match=r"^TIDE-CTRL-007"):
        run.stop()
    driver = project.plane().running("orders")
    assert driver is not None
    eventually(lambda: project.plane().runtime.kill(driver) or True, "the driver is ended")
    run.plan()
    assert run.apply()["request_id"] == audit_of(project).request_id
    assert orders.live == "g0002"


def test_a_verb_that_was_cut_short_holds_the_stream_back_until_its_task_is_cleared(
    project: SmallProject, orders: PipelineOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemill.checkpoint.procedure import carry_out as procedure

    start_stream(project)
    run = RunbookRun(project, "rewind", REWIND)
    run.stop()
    run.plan()
    with monkeypatch.context() as killed:
        killed.setattr(procedure, "write_audit", _dies)
        with pytest.raises(MemoryError):
            run.apply()
    with pytest.raises(REFUSED) as caught:
        run.start()
    assert "checkpoint rewind orders --to 2" in str(caught.value)
    assert wish_of(project).state == "stopped"
    run.plan()
    run.apply()
    assert (orders.live, orders.ids, audit_of(project).by) == ("g0002", list(range(30)), "ann")
    assert run.start()["batch_id"] == 0


def _dies(*_: object) -> bool:
    raise MemoryError


HOSTILE = [
    {"to": "2; rm -rf /"},
    {"to": "2\n"},
    {"to": ["2"]},
    {"generation": "../../g0001"},
    {"generation": "{{ 7*7 }}"},
    {"too": "2"},
    {"dry_run": "no"},
    {"reason": "two\nlines"},
    {"reason": "x" * 201},
    {"pipeline": "../orders"},
    {"to": "2", "reason": ""},
]


@pytest.mark.parametrize("params", HOSTILE, ids=str)
def test_a_hostile_form_is_refused_and_touches_nothing(
    project: SmallProject, orders: PipelineOnDisk, params: dict[str, Any]
) -> None:
    before = orders.files
    run = RunbookRun(project, "rewind", {**REWIND, **params})
    for task in (run.stop, run.plan):
        with pytest.raises(REFUSED, match=r"^TIDE-(CTRL-050|CKPT-031)"):
            task()
    assert orders.files == before
    assert read_desired(orders.store, orders.resolved.layout, "orders") is None


def test_a_backup_a_hold_and_its_release(project: SmallProject, orders: PipelineOnDisk) -> None:
    protect(project)
    told = {"reason": "before the deploy", "dry_run": False}
    backup = RunbookRun(project, "backup", told)
    assert "would copy" in backup.plan()["text"]
    # A live stream moves on between plan and apply.
    orders.ran_on(5, 6)
    taken = backup.apply()
    assert (taken["batch_id"], taken["by"]) == (5, "ann")
    assert f"backups/{taken['backup']}/manifest.json" in orders.files

    hold = RunbookRun(project, "hold", {"id": "deploy", **told})
    hold.plan()
    hold.apply()
    (held,) = read_holds(orders.store, orders.resolved.layout, "orders")
    assert (held.id, held.by) == ("deploy", "ann")

    release = RunbookRun(project, "release", {"hold": "deploy", **told})
    assert "held by ann" in release.plan()["text"]
    release.approved_by("bob")
    release.apply()
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []
    entries = read_audit(orders.store, orders.resolved.layout, "orders")
    assert {entry.verb: entry.by for entry in entries} == {
        "backup": "ann",
        "hold": "ann",
        "release": "ann, approved by bob",
    }


def test_a_release_whose_worker_died_at_its_end_is_found_done_by_the_retry_and_by_no_other_run(
    project: SmallProject, orders: PipelineOnDisk
) -> None:
    from tidemill.errors import UsageError

    told = {"reason": "it is over", "dry_run": False}
    hold = RunbookRun(project, "hold", {"id": "deploy", **told})
    hold.plan()
    hold.apply()
    release = RunbookRun(project, "release", {"hold": "deploy", **told})
    release.plan()
    released = release.apply()
    # The worker was lost before it could report the release, so the task is retried.
    assert release.apply() == released
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []
    entries = read_audit(orders.store, orders.resolved.layout, "orders")
    assert [entry.verb for entry in entries] == ["release", "hold"]

    with pytest.raises(UsageError, match="TIDE-CKPT-034"):
        RunbookRun(project, "release", {"hold": "deploy", "reason": "again", "dry_run": False}).plan()


def test_a_reset_begins_where_the_plan_says_whatever_is_latest_by_now(
    project: SmallProject, orders: PipelineOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemill.sources import starting_positions

    asked = {"from": "latest", "reason": "a gap is fine", "dry_run": False}
    run = RunbookRun(project, "reset", {**asked, "skip_unread": True})
    for latest, task in ((60, run.plan), (70, run.apply)):
        monkeypatch.setattr(
            starting_positions, "starting_positions", lambda *_, at=latest: {"source": {"orders": {"0": at}}}
        )
        task()
    assert orders.live == "g0002"
    assert orders.store.read(f"{orders.state}/g0002/sources/0/0") == b'\0v1\n{"orders":{"0":60}}'


def test_a_gap_that_nobody_agreed_to_is_refused_before_anything_is_changed(
    project: SmallProject, orders: PipelineOnDisk
) -> None:
    from tidemill.errors import UsageError

    asked = {"from": '{"orders": {"0": 60}}', "reason": "a gap", "dry_run": False}
    before = orders.files
    with pytest.raises(UsageError) as caught:
        RunbookRun(project, "reset", asked).plan()
    assert (caught.value.error_id, orders.files, orders.live) == ("TIDE-CKPT-104", before, "g0001")
    assert RunbookRun(project, "reset", {**asked, "dry_run": True}).plan()["plan"]["never_read"] == 10


def test_a_verb_that_needs_spark_says_so_where_there_is_none(
    project: SmallProject, orders: PipelineOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    from tidemill.control import spark_part
    from tidemill.errors import UnavailableError

    monkeypatch.setattr(spark_part, "_needs_spark", lambda _: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    before = orders.files
    with pytest.raises(UnavailableError) as caught:
        RunbookRun(project, "rewind", REWIND).plan()
    assert (caught.value.error_id, orders.files) == ("TIDE-CTRL-030", before)
