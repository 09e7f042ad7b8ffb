"""Requests and reconciliation, with drivers as pods: what a process of one machine cannot show."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.api_server import ApiServerInMemory, running
from tests.support.cluster_project import ClusterProject
from tests.support.drivers_as_pods import POD
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.checkpoint.status import Status, write_status
from tidemill.control.ask.goal import prove
from tidemill.control.ask.stream_request import StreamRequest, begin
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import CONFIG_MAPS, PODS, STATEFUL_SETS, Document, Kind
from tidemill.control.plane import ControlPlane
from tidemill.errors import UnavailableError
from tidemill.spec.pod import PIPELINE_LABEL
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


@dataclass(frozen=True)
class Images:
    """A stream `orders` whose environment names one image after the other."""

    project: ClusterProject
    api: ApiServerInMemory
    patch: pytest.MonkeyPatch

    def plane_with(self, tag: str) -> ControlPlane:
        """Return the control plane once this image was deployed."""
        self.project.on_a_volume(self.patch)
        file = self.project.folder / "conf/environments/plant.yaml"
        text = file.read_text().replace(self.project.image, f"docker.io/tidemill/spark:{tag}")
        file.write_text(f"{text}on_change: restart\n")
        environment = self.project.environment
        return ControlPlane(environment, Store(environment.layout.root), self.project.runtime(self.api))

    @property
    def run_id(self) -> str:
        """Return the run of the newest driver."""
        (slot,) = self.api.list(CONFIG_MAPS, {PIPELINE_LABEL: "orders"})
        return str(slot["metadata"]["annotations"]["tidemill/run-id"])

    @property
    def of_the_pod(self) -> str:
        (made,) = self.api.list(STATEFUL_SETS, {})
        (container,) = made["spec"]["template"]["spec"]["containers"]
        return str(container["image"]).rpartition(":")[2]

    def reconcile(self, plane: ControlPlane, later: timedelta = timedelta(0)) -> str:
        """Reconcile once, and let the cluster act."""
        now = datetime.now(UTC) + later
        action = reconcile_streams(plane, clock=lambda: now)[0].decision.action
        self.api.settle()
        return action


@pytest.fixture
def images(
    cluster_project: ClusterProject, api: ApiServerInMemory, monkeypatch: pytest.MonkeyPatch
) -> Images:
    return Images(cluster_project, api, monkeypatch)


def test_a_new_image_reaches_a_running_stream(images: Images) -> None:
    old = images.plane_with("0.1.0")
    begin(old, StreamRequest("orders", "start", "run-1", datetime.now(UTC), by="ann"))
    images.api.settle()
    assert images.reconcile(old) == "leave"
    new = images.plane_with("0.2.0")
    assert [images.reconcile(new), images.reconcile(new)] == ["stop", "start"]
    assert images.of_the_pod == "0.2.0"
    assert images.reconcile(new) == "leave"


def test_a_new_image_that_makes_no_batch_gives_way_to_the_one_before(images: Images) -> None:
    old = images.plane_with("0.1.0")
    begin(old, StreamRequest("orders", "start", "run-1", datetime.now(UTC), by="ann"))
    images.api.settle()
    commits(old, "run-1")
    assert images.reconcile(old) == "leave"
    new = images.plane_with("0.2.0")
    assert images.reconcile(new) == "stop"
    drained(new, "run-1")
    assert images.reconcile(new) == "start"
    later = timedelta(minutes=11)
    assert [images.reconcile(new, later), images.reconcile(new, later)] == ["return", "start"]
    assert images.of_the_pod == "0.1.0"
    # The slot stores everything that was decided then, for the driver and for the user.
    (slot,) = images.api.list(CONFIG_MAPS, {PIPELINE_LABEL: "orders"})
    assert "spark:0.1.0" in slot["data"]["environment.yaml"]
    assert json.loads(slot["data"]["resolved.json"])["image"].endswith(":0.1.0")
    assert images.reconcile(new) == "refused"
    # Another one is tried.
    drained(new, images.run_id)
    fixed = images.plane_with("0.3.0")
    assert [images.reconcile(fixed), images.reconcile(fixed)] == ["stop", "start"]
    assert images.of_the_pod == "0.3.0"


def drained(plane: ControlPlane, run_id: str) -> None:
    """Write the receipt of a run's driver."""
    at = datetime.now(UTC) + timedelta(seconds=1)
    receipt = Receipt(
        pipeline="orders", run_id=run_id, mode="stream", result="clean", exit_code=0, stopped_at=at
    )
    write_receipt(plane.store, plane.layout, receipt)


def commits(plane: ControlPlane, run_id: str) -> None:
    """Write a status in which the driver of a run has committed a batch."""
    now = datetime.now(UTC) + timedelta(seconds=1)
    status = Status(
        pipeline="orders",
        mode="stream",
        state="running",
        run_id=run_id,
        started_at=now,
        updated_at=now,
        batch_committed_at=now,
    )
    write_status(plane.store, plane.layout.status("orders"), status)


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
