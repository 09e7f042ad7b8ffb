"""The runtime's errors: the API server is away, names are taken, records are damaged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.api_server import (
    ApiServerInMemory,
    away,
    crash_looping,
)
from tests.support.cluster_project import OWNER, Clock, ClusterProject
from tests.support.drivers_as_pods import POD, held, is_alive, newest, started, stream
from tests.support.small_project import STREAM
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import CONFIG_MAPS, SERVICES, STATEFUL_SETS, Kind
from tidemill.control.kubernetes.slot_record import DRAIN_REQUESTED_AT, SlotRecord, record_of
from tidemill.errors import SpecError, UnavailableError, UsageError


def test_what_keeps_a_pod_from_being_made_is_told(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    api.warn("tidemill-orders", "Older", "not this")
    api.warn("tidemill-orders", "FailedCreate", "exceeded quota: plant, requested: pods=1")
    assert "FailedCreate: exceeded quota: plant" in newest(runtime).process


def test_a_driver_that_neither_starts_nor_ends_is_told_as_stuck(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    clock = Clock()
    api.clock = clock
    runtime = cluster_project.runtime(api, clock=clock)
    driver = started(runtime, stream())
    api.warn("tidemill-orders", "FailedCreate", "exceeded quota: plant, requested: pods=1")
    assert newest(runtime).stuck == ""
    clock.pass_by(301)
    assert "FailedCreate: exceeded quota" in newest(runtime).stuck
    api.settle()
    assert newest(runtime).stuck == ""
    runtime.drain(driver)
    api.controllers()
    clock.pass_by(cluster_project.environment.spec.grace_period.total_seconds() + 30)
    assert newest(runtime).stuck == ""
    clock.pass_by(60)
    assert "its node may be gone" in newest(runtime).stuck
    api.settle()
    assert newest(runtime).stuck == ""


def test_an_api_server_that_is_away_changes_nothing(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    driver = started(runtime, stream())
    api.settle()
    api.before = away
    calls: list[Callable[[], object]] = [
        lambda: runtime.start(stream("run-2"), "d1"),
        lambda: runtime.last_start("orders"),
        lambda: runtime.drain(driver),
        lambda: runtime.kill(driver),
        lambda: runtime.put_away(driver),
        runtime.main_slots,
        lambda: runtime.memory("orders").read(),
    ]
    for call in calls:
        with pytest.raises(UnavailableError):
            call()
    api.before = ApiServerInMemory().before
    assert (newest(runtime).alive, newest(runtime).drain_requested_at) == (True, None)
    assert newest(runtime).run_id == "run-1"


def test_a_reinstalled_release_waits_for_the_pod_of_the_one_before(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    api.settle()
    for kind in (CONFIG_MAPS, STATEFUL_SETS, SERVICES):
        api.delete(kind, "tidemill-orders", {})
    api.controllers()
    again = cluster_project.runtime(api).start(stream("run-2"), "d1")
    assert (again.started, again.driver.run_id, again.driver.alive) == (False, "run-1", True)
    api.settle()
    started(cluster_project.runtime(api), stream("run-2"))


@pytest.mark.parametrize("kind", [CONFIG_MAPS, STATEFUL_SETS, SERVICES])
def test_an_object_of_somebody_else_is_never_taken_over(
    cluster_project: ClusterProject, api: ApiServerInMemory, kind: Kind
) -> None:
    foreign = {"metadata": {"name": "tidemill-orders", "labels": {"app.kubernetes.io/managed-by": "Helm"}}}
    api.put(kind, {**foreign, "spec": {"replicas": 0}})
    with pytest.raises(SpecError) as caught:
        cluster_project.runtime(api).start(stream(), "d1")
    assert caught.value.error_id == "TIDE-K8S-005"
    found = api.get(kind, "tidemill-orders")
    assert found is not None
    assert found["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "Helm"}


def test_without_the_charts_owner_nothing_is_made(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    api.delete(CONFIG_MAPS, OWNER, {})
    with pytest.raises(SpecError) as caught:
        cluster_project.runtime(api).start(stream(), "d1")
    assert caught.value.error_id == "TIDE-K8S-006"
    assert api.list(CONFIG_MAPS, {}) == []


def test_a_damaged_record_stops_its_own_pipeline_only(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    cluster_project.declare("returns", STREAM)
    runtime = cluster_project.runtime(api)
    started(runtime, stream())
    started(runtime, DriverRun("returns", "stream", "run-1"))
    damage = {"metadata": {"annotations": {"tidemill/started-at": "yesterday"}}}
    api.patch(CONFIG_MAPS, "tidemill-orders", damage)
    api.patch(STATEFUL_SETS, "tidemill-orders", damage)
    with pytest.raises(UsageError) as caught:
        runtime.last_start("orders")
    assert caught.value.error_id == "TIDE-K8S-008"
    assert held(runtime) == ["orders", "returns"]
    assert is_alive(runtime, "returns")


def test_the_history_stays_over_starts_and_each_writer_adds_to_the_others(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    memory = runtime.memory("orders")
    memory.change(lambda known: (known or "") + "lost")
    assert memory.read() is None
    started(runtime, stream())
    raced = []

    def another_writer(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("patch", CONFIG_MAPS) and not raced:
            raced.append(True)
            cluster_project.runtime(api).memory("orders").change(lambda known: (known or "") + "a")

    api.before = another_writer
    memory.change(lambda known: (known or "") + "b")
    assert memory.read() == "ab"
    driver = newest(runtime)
    api.settle()
    runtime.drain(driver)
    api.settle()
    started(runtime, stream("run-2"))
    assert runtime.memory("orders").read() == "ab"


def test_traces_are_events_and_log_lines(cluster_project: ClusterProject, api: ApiServerInMemory) -> None:
    runtime = cluster_project.runtime(api)
    driver = started(runtime, stream())
    api.settle()
    api.warn(POD, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
    api.warn(POD, "BackOff", "Back-off restarting\nfailed container")
    api.logs[POD] = "starting\nJAVA_HOME is not set"
    api.change_pod(POD, crash_looping(datetime.now(UTC), "Error", 70))
    assert runtime.read_log(driver).lines == [
        "tidemill-orders-0: BackOff: Back-off restarting failed container",
        "tidemill-orders-0: its container ended: Error, exit 70, after 2 restarts",
        "starting",
        "JAVA_HOME is not set",
    ]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    at = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
    for drain in (None, at):
        record = SlotRecord("run-1", "backfill", "d1", at, drain)
        assert record_of({"metadata": {"annotations": record.annotations()}}) == record
    assert DRAIN_REQUESTED_AT not in SlotRecord("run-1", "stream", "d1", at).annotations()
