"""DAG runs under one real Airflow: streams, incremental runs and backfills, and Airflow's own death.

One file, because the processes of `make test` share no fixture, and a second Airflow would cost more than all
these tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.airflow_server import (
    OTHER_USER,
    RUN_TIMEOUT_SECONDS,
    USER,
    Airflow,
    airflow_server,
    status_of,
)
from tests.support.eventually import eventually
from tidemill.airflow_names import BACKFILL_DAG_ID, DRIVER_POOL
from tidemill.checkpoint.desired import read_desired
from tidemill.checkpoint.holds import Hold, read_holds, take_hold
from tidemill.checkpoint.procedure.audit import AuditEntry, read_audit
from tidemill.control.ask.bounded_run import finish_of
from tidemill.control.ask.goal import prove
from tidemill.control.ask.waiting_task import WaitingTask, note_waiting
from tidemill.control.driver_command import DriverRun
from tidemill.control.local.process_session import session_members
from tidemill.errors import UnavailableError
from tidemill.observe.airflow_health import ask_airflow

RANGE = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    with airflow_server(tmp_path_factory.mktemp("airflow")) as running:
        yield running


def test_an_incremental_run_is_proven_and_tells_its_table_what_it_wrote(airflow: Airflow) -> None:
    run_id, state = airflow.run("incremental__daily")
    assert state == "success"
    (table,) = airflow.result("incremental__daily", run_id, "run")
    assert (table["table"], table["rows"], table["batch_ids"]) == ("bronze/daily", 3, [0])
    (asset,) = airflow.api.call("GET", "/assets?name_pattern=bronze/daily")["assets"]
    events = airflow.api.call("GET", f"/assets/events?asset_id={asset['id']}")["asset_events"]
    extra = {"pipeline": "daily", "table": "bronze/daily", "version": table["version"], "batch_ids": [0]}
    assert extra.items() <= events[-1]["extra"].items()
    # Without new data, no event is emitted.
    airflow.project.behave("daily", "idle")
    run_id, state = airflow.run("incremental__daily")
    assert (state, airflow.tasks("incremental__daily", run_id)) == ("success", {"run": "skipped"})
    again = airflow.api.call("GET", f"/assets/events?asset_id={asset['id']}")["asset_events"]
    assert len(again) == len(events)


def test_airflow_tells_of_its_own_health(airflow: Airflow) -> None:
    def told() -> dict[str, bool]:
        components = {component.name: component for component in ask_airflow(airflow.server.url)}
        with_heartbeat = {name for name, component in components.items() if component.heartbeat is not None}
        if not {"scheduler", "triggerer", "dag_processor"} <= with_heartbeat:
            return {}
        return {name: component.healthy for name, component in components.items()}

    healthy = dict.fromkeys(("api_server", "scheduler", "triggerer", "dag_processor", "metadatabase"), True)
    eventually(lambda: told() == healthy, "every component has a heartbeat", 60)


def test_each_table_that_there_is_is_maintained_in_a_task_of_its_own(airflow: Airflow) -> None:
    airflow.run("incremental__daily")
    run_id, state = airflow.run("table_maintenance")
    assert state == "success"
    summary = airflow.result("table_maintenance", run_id, "report")
    tables = airflow.result("table_maintenance", run_id, "tables")
    assert "bronze/daily" in tables
    assert {line.partition(":")[0] for line in summary["done"]} == set(tables)


def test_a_cleared_task_finds_the_driver_that_is_at_work(airflow: Airflow) -> None:
    airflow.project.hold_back("slow")
    epoch_before = airflow.epoch("slow")
    run_id = airflow.begin("incremental__slow")
    airflow.until_task("incremental__slow", run_id, "run", "deferred")
    eventually(lambda: airflow.epoch("slow") == epoch_before + 1, "the driver is at work", 90)
    pool = airflow.api.call("GET", f"/pools/{DRIVER_POOL}")
    assert (pool["include_deferred"], pool["deferred_slots"], pool["occupied_slots"]) == (True, 1, 1)
    plane = airflow.project.plane()
    driver = plane.running("slow")
    assert driver is not None
    # The driver's log is in the task's log while it runs.
    own_words = f"slow | fake driver {driver.run_id}: wait"
    eventually(lambda: own_words in airflow.log_of("incremental__slow", "run"), "its log is shown", 60)
    airflow.clear("incremental__slow", run_id)
    found = f"runs as {driver.process}"
    eventually(
        lambda: airflow.log_of("incremental__slow", "run").count(found) == 2, "the second try finds it", 60
    )
    assert plane.running("slow") == driver
    airflow.project.let_go("slow")
    assert airflow.end("incremental__slow", run_id) == "success"
    assert airflow.epoch("slow") == epoch_before + 1


def test_a_run_that_cannot_succeed_fails_at_once_with_the_drivers_words(airflow: Airflow) -> None:
    airflow.project.behave("failing", "exit 65")
    _, state = airflow.run("incremental__failing")
    assert state == "failed"
    log = airflow.log_of("incremental__failing", "run")
    assert "TIDE-TEST-001" in log
    # The driver's own words. A try that Airflow repeats shows them again (apache/airflow#72716).
    assert "failing | fake driver" in log


def test_a_backfill_only_plans_unless_told_otherwise(airflow: Airflow) -> None:
    run_id, state = airflow.run(BACKFILL_DAG_ID, {"pipeline": "landing", **RANGE})
    assert state == "success"
    assert airflow.tasks(BACKFILL_DAG_ID, run_id) == {
        "plan": "success",
        "approve": "skipped",
        "apply": "skipped",
    }
    plan = airflow.result(BACKFILL_DAG_ID, run_id, "plan")
    assert plan["range"] == "2026-03-01T00:00:00+00:00 to 2026-03-02T00:00:00+00:00"
    assert "replaced by their time" in airflow.log_of(BACKFILL_DAG_ID, "plan")
    assert not (airflow.project.folder / ".data" / "tables" / "bronze" / "landing").exists()


def test_a_backfill_that_somebody_else_approves_returns_rows_and_table_version(airflow: Airflow) -> None:
    asked = {"pipeline": "landing", **RANGE, "chunk": "12 hours", "dry_run": False}
    run_id = airflow.begin(BACKFILL_DAG_ID, asked)
    airflow.approve(BACKFILL_DAG_ID, run_id, "approve")
    assert airflow.end(BACKFILL_DAG_ID, run_id) == "success"
    assert len(airflow.result(BACKFILL_DAG_ID, run_id, "plan")["parts"]) == 2
    (table,) = airflow.result(BACKFILL_DAG_ID, run_id, "apply")
    assert (table["table"], table["rows"], table["version"]) == ("bronze/landing", 3, 0)
    (asset,) = airflow.api.call("GET", "/assets?name_pattern=bronze/landing")["assets"]
    (told,) = airflow.api.call("GET", f"/assets/events?asset_id={asset['id']}")["asset_events"]
    assert {"pipeline": "landing", "mode": "backfill", "rows": 3}.items() <= told["extra"].items()
    entry = audited(airflow, "landing", "backfill apply")
    assert (entry.by, entry.why) == (f"{USER}, approved by {OTHER_USER}", f"DAG run {run_id}")
    assert entry.plan["plan"] == airflow.result(BACKFILL_DAG_ID, run_id, "plan")["digest"]


def audited(airflow: Airflow, pipeline: str, verb: str) -> AuditEntry:
    """Return the one entry of an operation."""
    plane = airflow.project.plane()
    (entry,) = [each for each in read_audit(plane.store, plane.layout, pipeline) if each.verb == verb]
    return entry


def test_a_range_that_is_refused_is_not_tried_again(airflow: Airflow) -> None:
    backwards = {"from": RANGE["to"], "to": RANGE["from"]}
    run_id, state = airflow.run(BACKFILL_DAG_ID, {"pipeline": "landing", **backwards, "dry_run": False})
    assert state == "failed"
    assert airflow.tries(BACKFILL_DAG_ID, run_id, "plan") == 1
    assert "TIDE-BACK-001" in airflow.log_of(BACKFILL_DAG_ID, "plan")


def test_a_backfill_whose_task_is_marked_as_failed_is_stopped_and_says_by_whom(airflow: Airflow) -> None:
    airflow.project.hold_back("filled")
    run_id = airflow.begin(BACKFILL_DAG_ID, {"pipeline": "filled", **RANGE, "dry_run": False})
    airflow.approve(BACKFILL_DAG_ID, run_id, "approve")
    airflow.until_task(BACKFILL_DAG_ID, run_id, "apply", "deferred")
    plane = airflow.project.plane()
    driver = plane.running("filled", "backfill")
    assert driver is not None
    eventually(lambda: airflow.epoch("filled") == 1, "the driver is at work", 90)
    # A trigger that the triggerer has not seen yet would never hear of it.
    eventually(lambda: "is at work" in airflow.log_of(BACKFILL_DAG_ID, "apply"), "the trigger looks", 90)

    airflow.mark_as_failed(BACKFILL_DAG_ID, run_id, "apply")

    eventually(lambda: plane.running("filled", "backfill") is None, "the driver has stopped", 90)
    proof = prove(plane, finish_of(driver))
    assert (proof.state, proof.evidence["retry"]) == ("failed", False)
    # The trigger or the reconciliation reports it, whichever is first.
    assert proof.message.startswith("stopped by airflow: its task")
    assert airflow.end(BACKFILL_DAG_ID, run_id) == "failed"


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"pipeline": "daily"},
        {"pipeline": "../../etc"},
        {"pipeline": "landing", "from": "yesterday"},
        {"pipeline": "landing", "from": "2026-13-01T00:00:00Z"},
        {"pipeline": "landing", "from": "2026-03-01T00:00:00"},
        {"pipeline": "landing", "from": "{{ 7*7 }}"},
        {"pipeline": "landing", **RANGE, "chunk": "{{ 7*7 }}"},
        {"pipeline": "landing", **RANGE, "publish": "soon"},
        {"pipeline": "landing", "from": '2026-03-01T00:00:00Z"; rm -rf /'},
        {"pipeline": "landing", "dry_run": "no"},
    ],
)
def test_the_form_of_a_backfill_refuses_what_it_does_not_know(
    airflow: Airflow, params: dict[str, Any]
) -> None:
    with pytest.raises(UnavailableError) as caught:
        airflow.begin(BACKFILL_DAG_ID, params)
    assert status_of(caught.value) == 400


def test_a_start_is_proven_by_a_batch_and_a_stop_by_the_receipt(airflow: Airflow) -> None:
    run_id, state = airflow.run("stream__orders", {"action": "start"})
    assert state == "success"
    proof = airflow.result("stream__orders", run_id, "prove")
    assert proof["batch_id"] == 0
    run_id, state = airflow.run("stream__orders", {"action": "stop", "reason": "broker move"})
    assert state == "success"
    assert airflow.result("stream__orders", run_id, "prove")["result"] == "clean"
    assert airflow.project.plane().running("orders") is None


@pytest.mark.soak
def test_a_driver_that_refuses_fails_the_proof_with_its_own_words(airflow: Airflow) -> None:
    airflow.project.behave("refusing", "exit 66")
    run_id, state = airflow.run("stream__refusing", {"action": "start"})
    assert state == "failed"
    assert airflow.tasks("stream__refusing", run_id) == {"act": "success", "prove": "failed"}
    log = airflow.log_of("stream__refusing", "prove")
    assert "TIDE-TEST-001" in log
    assert "refusing | fake driver" in log


@pytest.mark.soak
def test_a_restart_brings_one_new_driver_also_when_cleared_and_a_forced_stop_fails(airflow: Airflow) -> None:
    dag_id = "stream__restarted"
    airflow.project.behave("restarted", "forced")
    assert airflow.run(dag_id, {"action": "start"})[1] == "success"
    run_id, state = airflow.run(dag_id, {"action": "restart"})
    assert state == "success"
    assert airflow.result(dag_id, run_id, "prove")["epoch"] == 2
    airflow.clear(dag_id, run_id)
    assert airflow.end(dag_id, run_id) == "success"
    assert airflow.epoch("restarted") == 2
    assert airflow.run(dag_id, {"action": "stop"})[1] == "failed"
    assert "did not finish its batch in time" in airflow.log_of(dag_id, "prove")


@pytest.mark.parametrize(
    "params",
    [
        {"action": "destroy"},
        {"action": "start", "reason": 7},
        {"action": "start", "reason": "two\nlines"},
        {"action": "start", "reason": "x" * 10_000},
        {"action": ["start"]},
    ],
)
def test_the_form_of_a_stream_refuses_what_it_does_not_know(
    airflow: Airflow, params: dict[str, object]
) -> None:
    with pytest.raises(UnavailableError) as caught:
        airflow.begin("stream__orders", params)
    assert status_of(caught.value) == 400


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"pipeline": "../../etc", "to": "2"},
        {"pipeline": "landing", "to": "2; rm -rf /"},
        {"pipeline": "landing", "to": "{{ 7*7 }}"},
        {"pipeline": "landing", "to": ["2"]},
        {"pipeline": "landing", "generation": "../g0001"},
        {"pipeline": "landing", "to": "2", "reason": "two\nlines"},
        {"pipeline": "landing", "to": "2", "dry_run": "no"},
    ],
)
def test_the_form_of_a_verb_refuses_what_it_does_not_know(airflow: Airflow, params: dict[str, Any]) -> None:
    with pytest.raises(UnavailableError) as caught:
        airflow.begin("checkpoint__rewind", params)
    assert status_of(caught.value) == 400


def test_a_verb_waits_for_the_approval_of_somebody_else_and_leaves_both_names(airflow: Airflow) -> None:
    plane = airflow.project.plane()
    take_hold(plane.store, plane.layout, "landing", Hold(id="deploy", by="ann", why="a deployment"))
    told = {"pipeline": "landing", "hold": "deploy", "reason": "it is over", "dry_run": False}
    run_id = airflow.begin("checkpoint__release", told)
    airflow.approve("checkpoint__release", run_id, "approve")
    assert airflow.end("checkpoint__release", run_id) == "success"
    assert "would release deploy, held by ann" in airflow.log_of("checkpoint__release", "plan")
    assert read_holds(plane.store, plane.layout, "landing") == []
    entry = audited(airflow, "landing", "release")
    assert entry.by == f"{USER}, approved by {OTHER_USER}"
    assert entry.why == f"it is over (DAG run {run_id})"


def test_a_stream_comes_back_if_the_whole_run_of_its_verb_is_marked_as_failed(airflow: Airflow) -> None:
    plane, dag_id = airflow.project.plane(), "checkpoint__rewind"
    # It takes its time to stop, so that the run is met in the middle.
    airflow.project.behave("orders", "deaf")
    assert airflow.run("stream__orders", {"action": "start"})[1] == "success"
    airflow.project.behave("orders", "run")
    told = {"pipeline": "orders", "to": "0", "reason": "wrong unit", "dry_run": False}
    run_id = airflow.begin(dag_id, told)
    airflow.until_task(dag_id, run_id, "stop", "deferred")
    driver = plane.running("orders")
    assert driver is not None

    airflow.mark_run_as_failed(dag_id, run_id)

    def wish() -> str | None:
        standing = read_desired(plane.store, plane.layout, "orders")
        return None if standing is None else standing.state

    eventually(lambda: wish() == "running", "the stream is wanted again", RUN_TIMEOUT_SECONDS)
    assert plane.runtime.kill(driver)
    assert airflow.end(dag_id, run_id) == "failed"
    assert airflow.tasks(dag_id, run_id) == {
        "stop": "failed",
        "plan": "skipped",
        "approve": "skipped",
        "apply": "skipped",
        "start": "success",
        "end": "failed",
    }
    # Stop the stream for other tests. The run fails, because a killed driver leaves no receipt.
    airflow.run("stream__orders", {"action": "stop"})


def lose_a_run(airflow: Airflow) -> str:
    """Start a driver whose task then fails, as when a worker dies, and return its run id."""
    airflow.project.behave("failing", "exit 65")
    run_id, state = airflow.run("incremental__failing")
    assert state == "failed"
    airflow.project.hold_back("failing")
    plane, run = airflow.project.plane(), DriverRun("failing", "incremental", "lost")
    task = {"dag_id": "incremental__failing", "dag_run_id": run_id, "task_id": "run"}
    note_waiting(plane, WaitingTask(pipeline=run.pipeline, slot="main", run_id=run.run_id, **task))
    plane.runtime.start(run, "d1")
    return run.run_id


def test_reconciliation_starts_every_stream_and_fails_naming_those_that_need_a_human(
    airflow: Airflow,
) -> None:
    airflow.project.behave("refusing", "exit 66")
    lost = lose_a_run(airflow)
    try:
        run_id, state = airflow.run("tidemill_streams")
        assert state == "failed"
        decided = airflow.result("tidemill_streams", run_id, "reconcile")
        assert not airflow.is_paused("tidemill_streams")
        # No DAG run reports an unchanged error again.
        assert airflow.run("tidemill_streams")[1] == "failed"
        for texts in (airflow.news, airflow.chat.texts):
            told = [each for each in "\n".join(texts).splitlines() if each.startswith("broken: ")]
            assert len(told) == 1
    finally:
        airflow.pause("tidemill_streams")
    assert decided["broken"] == "refused"
    assert decided["survivor"] in ("start", "leave")
    assert airflow.project.plane().running("survivor") is not None
    log = airflow.log_of("tidemill_streams", "reconcile")
    # A run that its failed task has left at work.
    assert f"failing: drained driver {lost}" in log
    eventually(lambda: airflow.project.plane().running("failing") is None, "it has drained", 60)
    assert "These streams need a human." in log
    assert "broken.yaml" in log


@pytest.mark.soak
def test_a_broken_file_is_an_import_error_until_it_is_corrected(airflow: Airflow) -> None:
    def errors() -> list[str]:
        found = airflow.api.call("GET", "/importErrors")["import_errors"]
        return [error["stack_trace"] for error in found]

    (error,) = eventually(errors, "the import error is shown", RUN_TIMEOUT_SECONDS)
    assert "broken.yaml" in error
    assert "descripton" in error
    assert "stream__orders" in airflow.api.dag_ids()
    airflow.project.declare("broken")
    # Airflow reads a file that it knows again each 30 seconds.
    eventually(lambda: errors() == [], "the import error is gone", RUN_TIMEOUT_SECONDS)
    eventually(lambda: "stream__broken" in airflow.api.dag_ids(), "its DAG is there", RUN_TIMEOUT_SECONDS)


@pytest.mark.soak
def test_a_stream_outlives_airflow_and_is_found_again(airflow: Airflow) -> None:
    dag_id = "stream__survivor"
    assert airflow.run(dag_id, {"action": "start"})[1] == "success"
    plane = airflow.project.plane()
    before = plane.running("survivor")
    assert before is not None
    airflow.project.hold_back("patient")
    bounded = airflow.begin("incremental__patient")
    airflow.until_task("incremental__patient", bounded, "run", "deferred")
    epoch_of_it = eventually(lambda: airflow.epoch("patient"), "the incremental driver is at work")

    killed = session_members(airflow.server.identity)
    airflow.kill_and_start_again()
    assert len(killed) > 3
    assert not any(process.is_alive() for process in killed)

    assert plane.running("survivor") == before
    run_id, state = airflow.run(dag_id, {"action": "start"})
    assert state == "success"
    assert airflow.result(dag_id, run_id, "prove")["run_id"] == before.run_id
    # The incremental run also continued, and its task, which still waits, sees its end.
    assert plane.running("patient") is not None
    airflow.project.let_go("patient")
    assert airflow.end("incremental__patient", bounded) == "success"
    assert airflow.epoch("patient") == epoch_of_it
