"""The number of API server requests for 1,000 running streams is the same as for one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.api_over_http import ApiOverHttp
from tests.support.api_server import NAMESPACE, ApiServerInMemory
from tests.support.cluster_project import ClusterProject
from tests.support.drivers_as_pods import held, stream
from tests.support.scripted_api_server import kubeconfig
from tests.support.served import served
from tidemill.checkpoint.status import Status, write_status
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import CONFIG_MAPS, JOBS, PODS, STATEFUL_SETS, Kind
from tidemill.control.kubernetes.client import KubernetesClient
from tidemill.control.plane import ControlPlane
from tidemill.storage.store import Store

STREAMS = 1_000


@pytest.fixture
def over_http(api: ApiServerInMemory) -> Iterator[ApiOverHttp]:
    with served(ApiOverHttp(api)) as server:
        yield server


def multiply(api: ApiServerInMemory) -> None:
    """Add streams up to the maximum number, each with the objects of `orders`."""
    for kind in (CONFIG_MAPS, STATEFUL_SETS, PODS):
        for document in api.list(kind, {"tidemill/slot": "main"}):
            for number in range(1, STREAMS):
                text = json.dumps(document).replace("orders", f"stream-{number:04}")
                api.put(kind, json.loads(text))


def test_a_look_at_1000_streams_that_run_is_one_request_for_each_kind(
    cluster_project: ClusterProject,
    api: ApiServerInMemory,
    over_http: ApiOverHttp,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster_project.runtime(api).start(stream(), "d1")
    api.settle()
    multiply(api)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, over_http.address)))
    runtime = cluster_project.runtime(KubernetesClient("plant"))
    assert len(held(runtime)) == STREAMS
    # Claims, StatefulSets, Jobs and pods; reconciliation also asks for the namespace.
    assert over_http.requests == 4


def test_a_reconciliation_of_streams_that_run_asks_five_times_in_all(
    cluster_project: ClusterProject, api: ApiServerInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_project.on_a_volume(monkeypatch)
    for name in ("payments", "readings"):
        cluster_project.declare(name)
    environment = cluster_project.environment
    plane = ControlPlane(environment, Store(environment.layout.root), cluster_project.runtime(api))
    now = datetime.now(UTC)
    for name in ("orders", "payments", "readings"):
        digest = cluster_project.pipeline(name).definition_digest
        plane.runtime.start(DriverRun(name, "stream", "run-1"), digest)
        status = Status(
            pipeline=name, mode="stream", state="waiting", run_id="run-1", started_at=now, updated_at=now
        )
        write_status(plane.store, plane.layout.status(name), status)
    api.settle()
    reconcile_streams(plane)
    asked: list[tuple[str, Kind]] = []
    api.before = lambda verb, kind: asked.append((verb, kind))
    outcomes = reconcile_streams(plane)
    assert {outcome.decision.action for outcome in outcomes} == {"leave"}
    looks = [("list", kind) for kind in (CONFIG_MAPS, STATEFUL_SETS, JOBS, PODS)]
    assert asked == [("get", NAMESPACE), *looks]
