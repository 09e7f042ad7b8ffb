"""An empty cluster, `helm install`, and events become windows: as a user meets it."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.cluster import uid_of, until
from tests.support.platform import BRONZE, WINDOWS, Platform
from tests.support.release import PLATFORM, is_running
from tidemill.airflow_names import STREAMS_DAG_ID, incremental_dag_id, stream_dag_id
from tidemill.names import kubernetes_name

DAILY = "iot_daily_summary"

# Seconds for a look of the reconciliation to be over; it looks once a minute.
RECONCILED_SECONDS = 360


@pytest.mark.core
def test_every_pod_is_ready_and_the_tables_hold_what_was_sent(
    platform: Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        for what, seconds in platform.facts.items():
            print(f"\nhelm install to {what}: {seconds:.0f} s")  # noqa: T201  # a figure that a release reports
    waiting = [
        pod["metadata"]["name"]
        for pod in (*platform.cluster.pods(PLATFORM), *platform.streams.pods(PLATFORM))
        if pod["status"]["phase"] != "Succeeded" and not is_running(pod)
    ]
    assert waiting == []
    platform.assert_exact()


@pytest.mark.core
def test_every_installed_object_passes_a_dry_run_of_the_api_server(platform: Platform) -> None:
    documents = platform.release.manifest()
    airflow, streams = platform.cluster, platform.streams
    for place in (airflow, streams):
        # One that says nothing is made where the release is, or is cluster-wide.
        here = [
            each
            for each in documents
            if each["metadata"].get("namespace", airflow.namespace) == place.namespace
        ]
        assert here
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": here})
        place("apply", "--dry-run=server", "--filename=-", stdin=listed)


def test_airflow_shows_the_streams_as_reconciled(platform: Platform) -> None:
    def newest() -> tuple[str, str] | None:
        ended = [
            run for run in platform.airflow.runs(STREAMS_DAG_ID) if run["state"] in ("success", "failed")
        ]
        return (ended[0]["dag_run_id"], ended[0]["state"]) if ended else None

    found = until(newest, "the streams were reconciled", RECONCILED_SECONDS)
    assert found is not None
    run_id, state = found
    assert state == "success"
    decided = platform.airflow.result(STREAMS_DAG_ID, run_id, "reconcile")
    # The demo that reads a socket is also declared as a stream, but may not run on a cluster.
    assert set(decided) == {BRONZE, WINDOWS, "socket_word_count"}


def test_a_restart_asked_for_in_airflow_ends_with_the_proof(platform: Platform) -> None:
    before = platform.until_healthy(WINDOWS)
    with platform.events_flow():
        run_id, state = platform.airflow.run(stream_dag_id(WINDOWS), {"action": "restart", "reason": "e2e"})
        assert state == "success", platform.airflow.log_of(stream_dag_id(WINDOWS), run_id, "prove")
        proof = platform.airflow.result(stream_dag_id(WINDOWS), run_id, "prove")
    assert proof["epoch"] == platform.epochs(WINDOWS)
    assert uid_of(platform.until_healthy(WINDOWS)) != uid_of(before)
    receipt = platform.newest_receipt(WINDOWS)
    assert receipt is not None
    assert (receipt["result"], receipt["exit_code"]) == ("clean", 0)
    platform.assert_exact()


def test_an_incremental_run_is_one_job_also_when_its_task_is_cleared(platform: Platform) -> None:
    dag_id = incremental_dag_id(DAILY)
    # Events of the next day, so that a day is over and has rows.
    platform.feed(500)
    platform.assert_exact()
    # The first scheduled run. Another, triggered run would find no data to read.
    platform.airflow.unpause(dag_id)
    (run,) = until(lambda: platform.airflow.runs(dag_id), f"{dag_id} is scheduled", RECONCILED_SECONDS)
    run_id = run["dag_run_id"]
    until(
        lambda: [task["state"] for task in platform.airflow.tasks(dag_id, run_id)] == ["deferred"],
        "the task waits for its driver",
        RECONCILED_SECONDS,
    )
    platform.airflow.clear(dag_id, run_id)
    followed = []

    def is_over() -> bool:
        # The driver's output is in the task's log while it waits. The triggerer, in another pod, writes it.
        followed.append(f"{DAILY} | " in platform.airflow.log_of(dag_id, run_id, "run"))
        return [task["state"] for task in platform.airflow.tasks(dag_id, run_id)] == ["success"]

    until(is_over, "the run is over", RECONCILED_SECONDS)
    assert any(followed)
    assert platform.airflow.end(dag_id, run_id) == "success"
    # The task's log names the driver's log, and both tries name the same one.
    told = platform.airflow.log_of(dag_id, run_id, "run")
    (name,) = set(re.findall(rf"kubectl logs -n \S+ (?:job/)?({kubernetes_name(DAILY)}-[0-9a-f]{{8}})", told))
    job = platform.streams.get("job", name)
    assert job is not None
    assert job["status"]["succeeded"] == 1
    (table,) = platform.airflow.result(dag_id, run_id, "run")
    assert table["table"] == "gold/iot_daily_summary"
    assert table["rows"] > 0
