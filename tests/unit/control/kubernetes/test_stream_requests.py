"""Requests and reconciliation, with drivers as pods: what a process of one machine cannot show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.api_server import ApiServerInMemory, running
from tests.support.cluster_project import ClusterProject
from tests.support.drivers_as_pods import POD
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.control.driver_command import DriverRun
from tidemill.control.goal import prove
from tidemill.control.kubernetes.api import PODS, STATEFUL_SETS, Document, Kind
from tidemill.control.plane import ControlPlane
from tidemill.control.stream_request import StreamRequest, begin
from tidemill.control.streams import reconcile_streams
from tidemill.errors import UnavailableError
from tidemill.storage.store import Store


@pytest.fixture
def plane(
    cluster_project: ClusterProject, api: ApiServerInMemory, monkeypatch: pytest.MonkeyPatch
) -> ControlPlane:
    cluster_project.on_a_volume(monkeypatch)
    environment = cluster_project.environment
    return ControlPlane(environment, Store(environment.layout.root), cluster_project.runtime(api))


def runs(plane: ControlPlane, api: ApiServerInMemory) -> None:
    plane.runtime.start(DriverRun("orders", "stream", "run-1"), "d1")
    api.settle()


def test_a_restart_is_not_done_by_the_kubelets_own_restart_of_the_old_driver(
    plane: ControlPlane, api: ApiServerInMemory
) -> None:
    runs(plane, api)
    asked_at = datetime.now(UTC)
    api.change_pod(POD, running(asked_at + timedelta(seconds=3), restarts=1))
    request = StreamRequest("orders", "restart", "run-2", asked_at, by="ann")
    goal = begin(plane, request)
    assert (goal.kind, goal.final) == ("stopped", False)
    driver = plane.running("orders")
    assert driver is not None
    assert driver.drain_requested_at is not None


def test_a_restart_is_not_proven_by_the_kubelets_own_restart_of_the_old_driver(
    plane: ControlPlane, api: ApiServerInMemory
) -> None:
    runs(plane, api)
    asked_at = datetime.now(UTC)
    goal = begin(plane, StreamRequest("orders", "start", "run-2", asked_at, by="ann"))
    api.change_pod(POD, running(asked_at + timedelta(seconds=3), restarts=1))
    proof = prove(plane, goal.model_copy(update={"started_after": asked_at}))
    assert (proof.state, proof.message) == ("pending", "no driver was started yet")


def test_a_new_driver_on_a_node_whose_clock_is_late_is_the_restarted_one(
    plane: ControlPlane, api: ApiServerInMemory
) -> None:
    asked_at = datetime.now(UTC)
    request = StreamRequest("orders", "restart", "run-1", asked_at, by="ann")
    runs(plane, api)
    api.change_pod(POD, running(asked_at - timedelta(seconds=20)))
    goal = begin(plane, request)
    assert goal.kind == "progress"
    assert "is starting" in prove(plane, goal).message


def test_a_drain_that_failed_half_way_is_completed_and_kills_nothing(
    plane: ControlPlane, api: ApiServerInMemory
) -> None:
    runs(plane, api)
    write_desired(plane.store, plane.layout, "orders", Desired(state="stopped", by="ann"))
    acts: list[tuple[str, Kind]] = []
    failing = True

    def before(verb: str, kind: Kind) -> None:
        acts.append((verb, kind))
        if failing and (verb, kind) == ("patch", STATEFUL_SETS):
            raise UnavailableError("TIDE-TEST-001", "As the test wants.", fix="ask the test")

    api.before = before
    assert reconcile_streams(plane)[0].decision.action == "unseen"
    assert replicas(api) == 1
    failing = False
    assert reconcile_streams(plane)[0].decision.action == "leave"
    assert replicas(api) == 0
    assert ("delete", PODS) not in acts


def test_a_new_image_reaches_a_running_stream(
    cluster_project: ClusterProject, api: ApiServerInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plane_with(image: str) -> ControlPlane:
        cluster_project.on_a_volume(monkeypatch)
        file = cluster_project.folder / "conf/environments/plant.yaml"
        text = file.read_text().replace(cluster_project.image, image)
        file.write_text(f"{text}on_change: restart\n")
        environment = cluster_project.environment
        return ControlPlane(environment, Store(environment.layout.root), cluster_project.runtime(api))

    old = plane_with("docker.io/tidemill/spark:0.1.0")
    begin(old, StreamRequest("orders", "start", "run-1", datetime.now(UTC), by="ann"))
    api.settle()
    assert reconcile_streams(old)[0].decision.action == "leave"
    new = plane_with("docker.io/tidemill/spark:0.2.0")
    assert reconcile_streams(new)[0].decision.action == "stop"
    api.settle()
    assert reconcile_streams(new)[0].decision.action == "start"
    (made,) = api.list(STATEFUL_SETS, {})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "docker.io/tidemill/spark:0.2.0"
    api.settle()
    assert reconcile_streams(new)[0].decision.action == "leave"


def test_a_suspended_stream_is_scaled_to_zero_and_back_when_its_moment_has_passed(
    plane: ControlPlane, api: ApiServerInMemory
) -> None:
    runs(plane, api)
    asked_at = datetime.now(UTC)
    until = asked_at + timedelta(hours=1)
    begin(plane, StreamRequest("orders", "suspend", "run-2", asked_at, by="ann", until=until))
    assert replicas(api) == 0
    api.settle()
    assert reconcile_streams(plane)[0].decision.action == "leave"
    assert replicas(api) == 0
    assert reconcile_streams(plane, clock=lambda: until)[0].decision.action == "start"
    assert replicas(api) == 1


def replicas(api: ApiServerInMemory) -> int:
    document: Document | None = api.get(STATEFUL_SETS, "tidemill-orders")
    assert document is not None
    return int(document["spec"]["replicas"])
