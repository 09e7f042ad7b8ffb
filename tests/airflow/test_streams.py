"""Streams under a real Airflow: actions, proof, reconciliation, and Airflow's own death."""

from __future__ import annotations

import pytest

from tests.support.airflow_server import Airflow, status_of
from tests.support.eventually import eventually
from tidemill.control.process_session import session_members
from tidemill.errors import UnavailableError


def test_a_start_is_proven_by_a_batch_and_a_stop_by_the_receipt(airflow: Airflow) -> None:
    run_id, state = airflow.run("stream__orders", {"action": "start"})
    assert state == "success"
    proof = airflow.result("stream__orders", run_id, "prove")
    assert proof["batch_id"] == 0
    run_id, state = airflow.run("stream__orders", {"action": "stop", "reason": "broker move"})
    assert state == "success"
    assert airflow.result("stream__orders", run_id, "prove")["result"] == "clean"
    assert airflow.project.plane().running("orders") is None


def test_a_driver_that_refuses_fails_the_proof_with_its_own_words(airflow: Airflow) -> None:
    airflow.project.behave("refusing", "exit 66")
    run_id, state = airflow.run("stream__refusing", {"action": "start"})
    assert state == "failed"
    assert airflow.tasks("stream__refusing", run_id) == {"act": "success", "prove": "failed"}
    assert "TIDE-TEST-001" in airflow.log_of("stream__refusing", "prove")


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


def test_reconciliation_starts_every_stream_and_fails_naming_those_that_need_a_human(
    airflow: Airflow,
) -> None:
    airflow.project.behave("refusing", "exit 66")
    try:
        run_id, state = airflow.run("tidemill_streams")
        assert state == "failed"
        decided = airflow.result("tidemill_streams", run_id, "reconcile")
    finally:
        airflow.pause("tidemill_streams")
    assert decided["broken"] == "refused"
    assert decided["survivor"] in ("start", "leave")
    assert airflow.project.plane().running("survivor") is not None
    log = airflow.log_of("tidemill_streams", "reconcile")
    assert "These streams need a human." in log
    assert "broken.yaml" in log


def test_a_broken_file_is_an_import_error_until_it_is_corrected(airflow: Airflow) -> None:
    def errors() -> list[str]:
        found = airflow.api.call("GET", "/importErrors")["import_errors"]
        return [error["stack_trace"] for error in found]

    (error,) = eventually(errors, "the import error is shown", 60)
    assert "broken.yaml" in error
    assert "descripton" in error
    assert "stream__orders" in airflow.api.dag_ids()
    airflow.project.declare("broken")
    eventually(lambda: errors() == [], "the import error is gone", 60)
    eventually(lambda: "stream__broken" in airflow.api.dag_ids(), "its DAG is there", 60)


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
    # The incremental run went on too, and its task, still waiting, sees its end.
    assert plane.running("patient") is not None
    airflow.project.let_go("patient")
    assert airflow.end("incremental__patient", bounded) == "success"
    assert airflow.epoch("patient") == epoch_of_it
