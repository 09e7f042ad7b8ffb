"""Drivers as pods: started once, found again, drained, killed, despite crashes and races in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.api_server import (
    ApiServerInMemory,
    crash_looping,
    running,
)
from tests.support.cluster_project import ClusterProject
from tests.support.drivers_as_pods import POD, bounded, held, is_alive, job_name, newest, started, stream
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import JOBS, PODS
from tidemill.errors import UnavailableError


def test_nothing_was_ever_started(cluster_project: ClusterProject, api: ApiServerInMemory) -> None:
    runtime = cluster_project.runtime(api)
    assert runtime.last_start("orders") is None
    assert held(runtime) == []


def test_a_stream_is_started_once_and_found_by_everybody(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    first = started(cluster_project.runtime(api), stream())
    api.settle()
    again = cluster_project.runtime(api).start(stream("run-2"), "d2")
    assert not again.started
    assert (again.driver.run_id, again.driver.digest, again.driver.alive) == (first.run_id, "d1", True)
    assert api.running_pods == [POD]
    assert held(cluster_project.runtime(api)) == ["orders"]


def test_a_stream_lives_from_its_claim_on(cluster_project: ClusterProject, api: ApiServerInMemory) -> None:
    driver = started(cluster_project.runtime(api), stream())
    assert driver.alive
    assert driver.log == "kubectl logs -n plant tidemill-orders-0"
    api.settle()
    assert newest(cluster_project.runtime(api)).process == "pod tidemill-orders-0"


def test_a_drained_stream_lives_until_its_pod_is_gone(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    driver = started(runtime, stream())
    api.settle()
    assert runtime.drain(driver)
    api.controllers()
    draining = newest(runtime)
    assert draining.alive
    assert draining.drain_requested_at is not None
    assert "Terminating" in draining.process
    api.settle()
    ended = newest(runtime)
    assert (ended.alive, ended.run_id) == (False, "run-1")
    assert not runtime.drain(driver)
    assert started(runtime, stream("run-2")).drain_requested_at is None


def test_a_pod_deleted_by_hand_comes_back_as_the_same_run(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    api.settle()
    api.delete(PODS, POD, {})
    assert is_alive(runtime)
    api.kubelet()
    assert is_alive(runtime)
    api.settle()
    assert (newest(runtime).run_id, api.running_pods) == ("run-1", [POD])


def test_a_killed_stream_is_gone_and_stays_down(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    driver = started(runtime, stream())
    api.settle()
    assert runtime.kill(driver)
    api.settle()
    assert not is_alive(runtime)
    assert api.running_pods == []
    assert not runtime.kill(driver)


def test_a_kill_meant_for_an_older_run_touches_no_newer_one(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    old = started(runtime, stream())
    api.settle()
    runtime.drain(old)
    api.settle()
    started(runtime, stream("run-2"))
    api.settle()
    assert not runtime.kill(old)
    assert not runtime.drain(old)
    assert (newest(runtime).run_id, newest(runtime).alive) == ("run-2", True)


def test_a_crash_looping_driver_has_ended_and_its_successor_takes_its_pod(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    api.settle()
    crashed_at = datetime.now(UTC).replace(microsecond=0)
    api.change_pod(POD, crash_looping(crashed_at, "OOMKilled", 137))
    ended = newest(runtime)
    assert (ended.alive, ended.started_at) == (False, crashed_at)
    assert ended.termination == "OOMKilled, exit 137"
    assert ended.log.endswith("--previous")
    started(runtime, stream("run-2"))
    assert (newest(runtime).run_id, newest(runtime).alive) == ("run-2", True)
    api.settle()
    assert (newest(runtime).run_id, api.running_pods) == ("run-2", [POD])


def test_a_crash_looping_driver_that_is_put_away_stays_down(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    api.settle()
    api.change_pod(POD, crash_looping(datetime.now(UTC)))
    runtime.put_away(newest(runtime))
    assert not is_alive(runtime)
    api.settle()
    assert api.running_pods == []
    assert (newest(runtime).run_id, newest(runtime).alive) == ("run-1", False)


def test_putting_away_an_old_run_leaves_a_new_one_alone(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    api.settle()
    api.change_pod(POD, crash_looping(datetime.now(UTC)))
    ended = newest(runtime)
    started(runtime, stream("run-2"))
    runtime.put_away(ended)
    api.settle()
    assert api.running_pods == [POD]


def test_a_driver_that_the_kubelet_started_again_is_told_from_its_former_life(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    first = started(runtime, stream())
    api.settle()
    later = first.started_at.replace(microsecond=0) + timedelta(minutes=5)
    api.change_pod(POD, running(later, restarts=3))
    now = newest(runtime)
    assert (now.run_id, now.started_at, now.alive) == ("run-1", later, True)
    assert now.process == "pod tidemill-orders-0, 3 restarts"


def test_an_incremental_run_and_a_stream_of_one_pipeline_never_run_at_once(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, bounded(pipeline="orders"))
    api.settle()
    other = runtime.start(stream("run-2"), "d1")
    assert (other.started, other.driver.mode) == (False, "incremental")
    api.finish_job(job_name(api))
    started(runtime, stream("run-2"))
    api.settle()
    other = runtime.start(bounded("run-3", "orders"), "d1")
    assert (other.started, other.driver.mode) == (False, "stream")


def test_a_backfill_runs_beside_the_stream(cluster_project: ClusterProject, api: ApiServerInMemory) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    arguments = ("--from", "2026-01-01T00:00:00Z")
    started(runtime, DriverRun("orders", "backfill", "fill-1", arguments))
    api.settle()
    assert len(api.running_pods) == 2
    backfill = runtime.last_start("orders", "backfill")
    assert backfill is not None
    assert (backfill.mode, backfill.run_id, newest(runtime).run_id) == ("backfill", "fill-1", "run-1")
    assert runtime.drain(backfill)
    api.settle()
    assert api.running_pods == [POD]


def test_a_bounded_run_takes_the_place_of_a_crash_looping_stream_only_when_its_pod_is_gone(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    api.settle()
    api.change_pod(POD, crash_looping(datetime.now(UTC)))
    with pytest.raises(UnavailableError) as caught:
        runtime.start(bounded("run-2", "orders"), "d1")
    assert caught.value.error_id == "TIDE-K8S-009"
    api.settle()
    started(runtime, bounded("run-2", "orders"))


def test_a_bounded_run_is_found_again_and_its_end_is_known(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    first = started(runtime, bounded())
    api.settle()
    again = cluster_project.runtime(api).start(bounded(), "d1")
    assert (again.started, again.driver.started_at) == (False, first.started_at)
    api.finish_job(job_name(api))
    ended = newest(runtime, "daily")
    assert (ended.alive, ended.started_at) == (False, first.started_at)


def test_a_bounded_run_that_failed_can_be_started_again_under_its_run_id(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    first = started(runtime, bounded())
    api.settle()
    api.finish_job(job_name(api), "Failed")
    second = started(runtime, bounded())
    assert second.started_at > first.started_at
    assert len(api.list(JOBS, {})) == 2


def test_a_bounded_run_whose_pod_is_deleted_has_failed(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, bounded())
    api.settle()
    api.delete(PODS, api.running_pods[0], {})
    assert is_alive(runtime, "daily")
    api.settle()
    assert not is_alive(runtime, "daily")
    assert api.running_pods == []
