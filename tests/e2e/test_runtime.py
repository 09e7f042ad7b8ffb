"""The runtime with a real cluster and drivers that only sleep, to verify the API server in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api_contract import ApiContract
from tests.support.cluster import Cluster, RefusedError
from tests.support.cluster_project import ClusterProject, make_owner
from tests.support.drivers_as_pods import held
from tests.support.eventually import eventually
from tidemill.control.driver_command import DriverRun
from tidemill.control.driver_log import LogPosition
from tidemill.control.kubernetes.api import PODS
from tidemill.control.kubernetes.client import KubernetesClient
from tidemill.control.kubernetes.driver_pod import DriverProgram
from tidemill.control.kubernetes.kubernetes_runtime import KubernetesRuntime
from tidemill.control.runtime import StartedDriver
from tidemill.spec.project import Pipeline

NAMESPACE = "tidemill-e2e-runtime"

# An image in every cluster that `make e2e` uses, because it is the base of the images.
IMAGE = "docker.io/library/debian:bookworm-slim"

SLEEPS = "trap 'echo drained; exit 0' TERM; echo awake; sleep 1000 & wait"
ENDS_WELL = "echo done"
SPOKEN_LINES = 400
TALKS = (
    f"for i in $(seq {SPOKEN_LINES}); do echo line $i; [ $((i % 40)) != 0 ] || sleep 0.3; done; "
    "printf '\\033[2Jend\\n'"
)
CRASHES = "echo 'as the test wants' >&2; exit 70"


def driver(script: str) -> DriverProgram:
    """Return a driver that is a shell script."""

    def arguments(_pipeline: Pipeline, _run: DriverRun) -> list[str]:
        return [script]

    return DriverProgram(arguments, command=("bash", "-c"), has_probes=False)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(NAMESPACE)
    cluster.create_namespace()
    metadata = [{"name": "tidemill-driver"}, {"name": "tidemill-executor"}]
    accounts = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": each} for each in metadata]
    secrets = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"secret": "x" * 32}}
        for name in ("tidemill-rpc", "plant")
    ]
    cluster.apply(*accounts, *secrets)
    yield cluster
    cluster.delete_namespace()


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> KubernetesClient:
    api = KubernetesClient(NAMESPACE)
    make_owner(api)
    return api


@pytest.fixture
def project(tmp_path: Path) -> ClusterProject:
    return ClusterProject(tmp_path / "project", NAMESPACE, IMAGE)


class TestApi(ApiContract):
    """The real API server keeps the contract."""


def until(runtime: KubernetesRuntime, name: str, expectation: str, says: str) -> StartedDriver:
    """Wait until the process text of a living driver contains `says`."""

    def look() -> StartedDriver | None:
        found = runtime.last_start(name)
        return found if found is not None and found.alive and says in found.process else None

    return eventually(look, expectation, 60, poll_seconds=0.5)


def until_ended(runtime: KubernetesRuntime, name: str) -> StartedDriver:
    def look() -> StartedDriver | None:
        found = runtime.last_start(name)
        return None if found is None or found.alive else found

    return eventually(look, f"{name} has ended", 90, poll_seconds=0.5)


def until_awake(api: KubernetesClient, pod: str) -> None:
    eventually(lambda: "awake" in api.log(pod, "driver", 10), f"{pod} is awake", 60, poll_seconds=0.5)


def test_a_stream_starts_drains_and_starts_again(
    project: ClusterProject, api: KubernetesClient, cluster: Cluster
) -> None:
    runtime = project.runtime(api, program=driver(SLEEPS))
    first = runtime.start(DriverRun("orders", "stream", "run-1"), "d1")
    again = runtime.start(DriverRun("orders", "stream", "run-2"), "d1")
    assert (first.started, again.started, again.driver.run_id) == (True, False, "run-1")
    until_awake(api, "tidemill-orders-0")
    assert held(runtime) == ["orders"]
    living = runtime.last_start("orders")
    assert living is not None
    assert (living.process, living.digest, living.mode) == ("pod tidemill-orders-0", "d1", "stream")
    assert runtime.drain(living)
    ended = until_ended(runtime, "orders")
    assert ended.drain_requested_at is not None
    assert runtime.start(DriverRun("orders", "stream", "run-3"), "d1").driver.run_id == "run-3"
    until_awake(api, "tidemill-orders-0")
    living = runtime.last_start("orders")
    assert living is not None
    assert (living.run_id, living.drain_requested_at) == ("run-3", None)
    assert runtime.kill(living)
    until_ended(runtime, "orders")


def test_a_deleted_pod_comes_back_as_the_same_run_and_a_crash_looping_one_is_replaced(
    project: ClusterProject, api: KubernetesClient, cluster: Cluster
) -> None:
    runtime = project.runtime(api, program=driver(SLEEPS))
    runtime.start(DriverRun("orders", "stream", "run-4"), "d1")
    until_awake(api, "tidemill-orders-0")
    before = runtime.last_start("orders")
    cluster.delete("pod", "tidemill-orders-0")

    def came_back() -> bool:
        now = runtime.last_start("orders")
        assert now is not None
        assert (now.alive, now.run_id) == (True, "run-4")
        return before is not None and now.started_at > before.started_at and "Terminating" not in now.process

    eventually(came_back, "another pod runs", 60, poll_seconds=0.5)
    living = runtime.last_start("orders")
    assert living is not None
    runtime.kill(living)
    until_ended(runtime, "orders")

    crashing = project.runtime(api, program=driver(CRASHES))
    crashing.start(DriverRun("orders", "stream", "run-5"), "d1")
    ended = until_ended(crashing, "orders")
    assert ended.termination == "Error, exit 70"
    assert any("as the test wants" in line for line in crashing.read_log(ended).lines)
    runtime.start(DriverRun("orders", "stream", "run-6"), "d1")
    until(runtime, "orders", "the pod is replaced", "pod tidemill-orders-0")
    until_awake(api, "tidemill-orders-0")
    assert held(runtime) == ["orders"]
    crashing.put_away(ended)
    living = runtime.last_start("orders")
    assert living is not None
    assert (living.alive, living.run_id) == (True, "run-6")
    runtime.kill(living)
    until_ended(runtime, "orders")


def test_a_crash_looping_stream_that_is_put_away_stays_down(
    project: ClusterProject, api: KubernetesClient
) -> None:
    runtime = project.runtime(api, program=driver(CRASHES))
    runtime.start(DriverRun("orders", "stream", "run-7"), "d1")
    ended = until_ended(runtime, "orders")
    runtime.put_away(ended)
    eventually(lambda: api.get(PODS, "tidemill-orders-0") is None, "its pod is gone", 60)
    assert held(runtime) == []


def test_a_bounded_run_ends_by_itself_and_a_drained_one_does_not_come_back(
    project: ClusterProject, api: KubernetesClient
) -> None:
    runtime = project.runtime(api, program=driver(ENDS_WELL))
    run = DriverRun("daily", "incremental", "run-1")
    first = runtime.start(run, "d1").driver
    ended = until_ended(runtime, "daily")
    assert (ended.run_id, ended.started_at) == ("run-1", first.started_at)
    runtime = project.runtime(api, program=driver(SLEEPS))
    runtime.start(DriverRun("daily", "incremental", "run-2"), "d1")
    living = until(runtime, "daily", "the second run has a pod", "pod ")
    assert runtime.drain(living)
    until_ended(runtime, "daily")
    assert held(runtime) == []


def test_what_keeps_a_pod_from_running_is_told(
    project: ClusterProject, api: KubernetesClient, cluster: Cluster
) -> None:
    other = ClusterProject(project.folder.parent / "other", NAMESPACE, "docker.io/tidemill/missing:1")
    runtime = other.runtime(api)
    runtime.start(DriverRun("orders", "stream", "run-8"), "d1")
    told = until(runtime, "orders", "the wrong image is told", "Image")
    runtime.kill(told)
    until_ended(runtime, "orders")
    quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
    cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    try:
        eventually(lambda: "status" in (cluster.get("quota", "full") or {}), "the quota counts")
        runtime = project.runtime(api, program=driver(SLEEPS))
        runtime.start(DriverRun("orders", "stream", "run-9"), "d1")
        told = until(runtime, "orders", "the full quota is told", "exceeded quota")
        runtime.drain(told)
        until_ended(runtime, "orders")
    finally:
        cluster.delete("quota", "full")


def test_the_namespace_of_these_tests_refuses_a_pod_that_is_not_locked_down(cluster: Cluster) -> None:
    """So every pod above has passed the strictest of Kubernetes' own standards."""
    container = {"name": "open", "image": IMAGE}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "open"},
        "spec": {"containers": [container]},
    }
    with pytest.raises(RefusedError, match='violates PodSecurity "restricted'):
        cluster.apply(pod)


def test_the_log_of_a_run_is_read_while_it_grows_and_each_line_once(
    project: ClusterProject, api: KubernetesClient
) -> None:
    """The kubelet knows whole seconds only, and lines come in bursts."""
    runtime = project.runtime(api, program=driver(TALKS))
    first = runtime.start(DriverRun("daily", "incremental", "run-talks"), "d1").driver
    lines: list[str] = []
    position: LogPosition | None = None

    def has_ended() -> bool:
        nonlocal position
        now = runtime.last_start("daily")
        news = runtime.read_log(first, position)
        lines.extend(news.lines)
        position = LogPosition.model_validate(news.position.model_dump(mode="json"))
        return now is not None and not now.alive

    eventually(has_ended, "it has ended", 120, poll_seconds=0.1)
    last = runtime.read_log(first, position)
    assert [line for line in [*lines, *last.lines] if "container ended" not in line] == [
        *(f"line {number}" for number in range(1, SPOKEN_LINES + 1)),
        r"\x1b[2Jend",
    ]


def test_why_a_pod_does_not_start_is_told_by_its_events(tmp_path: Path, api: KubernetesClient) -> None:
    nowhere = ClusterProject(tmp_path / "nowhere", NAMESPACE, "docker.io/nobody/nothing:1")
    runtime = nowhere.runtime(api, program=driver(SLEEPS))
    begun = runtime.start(DriverRun("daily", "incremental", "run-nowhere"), "d1").driver
    told = eventually(
        lambda: [line for line in runtime.read_log(begun).lines if "nobody/nothing:1" in line],
        "an event tells of the image",
        120,
        poll_seconds=1,
    )
    assert ": Failed: " in told[0]
    runtime.kill(begun)
    until_ended(runtime, "daily")
