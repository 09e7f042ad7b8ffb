"""Print the time of one reconciliation of 1,000 streams, and its number of API server requests.

Limits: 20 s, a third of its schedule, and 5 requests.

On Kubernetes: 1,000 running streams. The API server is a separate process that speaks HTTP and takes 5 ms for
each answer, and storage is a local folder. On this machine: 1,000 stopped streams whose drivers have ended,
each with its record, desired state and receipt.

Run: make bench-reconcile
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.support.api_over_http import REQUESTS, ApiOverHttp
from tests.support.api_server import ApiServerInMemory
from tests.support.cluster_project import ClusterProject, make_owner
from tests.support.small_project import STREAM, SmallProject
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.checkpoint.status import Status, write_status
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.client import KubernetesClient
from tidemill.control.local.driver_record import DriverRecord, write_record
from tidemill.control.plane import ControlPlane
from tidemill.spec.project import resolve_pipeline
from tidemill.storage.store import Store

STREAMS = 1_000
LIMIT_SECONDS = 20.0
LIMIT_REQUESTS = 5
ANSWER_SECONDS = 0.005
NAMES = [f"stream_{number:04}" for number in range(STREAMS)]


def serve(folder: Path, parent: Connection[Any, Any]) -> None:
    """Run in a separate process: start every stream, send the address to the parent, and answer requests."""
    project, api = ClusterProject(folder), ApiServerInMemory()
    with pytest.MonkeyPatch.context() as patch:
        project.on_a_volume(patch)
        make_owner(api)
        (folder / "conf/pipelines/orders.yaml").unlink()
        for name in NAMES:
            project.declare(name)
        runtime = project.runtime(api)
        for name in NAMES:
            digest = resolve_pipeline(project.environment, name).definition_digest
            runtime.start(DriverRun(name, "stream", "run-1"), digest)
        api.settle()
        server = ApiOverHttp(api, ANSWER_SECONDS)
        parent.send(server.address)
        server.serve_forever()


@contextmanager
def cluster(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[tuple[ControlPlane, Callable[[], int]]]:
    """Yield a control plane whose streams all run, and the number of requests to its API server."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(folder, there), daemon=True)
    process.start()
    try:
        address = here.recv()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of(address)))
        patch.setenv("KUBECONFIG", str(kubeconfig))
        patch.setattr("tidemill.spec.kubernetes.TAKEN_FOLDERS", ())
        environment = project_at(folder).environment
        store = Store(environment.layout.root)
        now = datetime.now(UTC)
        for name in NAMES:
            status = Status(
                pipeline=name, mode="stream", state="waiting", run_id="run-1", started_at=now, updated_at=now
            )
            write_status(store, environment.layout.status(name), status)
        runtime = project_at(folder).runtime(KubernetesClient("plant"))
        yield ControlPlane(environment, store, runtime), partial(requests_at, address)
    finally:
        process.kill()
        process.join()


def requests_at(address: str) -> int:
    with urlopen(address + REQUESTS) as answer:
        return int(answer.read())


def project_at(folder: Path) -> ClusterProject:
    """Return the project that the other process has made."""
    project = object.__new__(ClusterProject)
    object.__setattr__(project, "folder", folder)
    return project


def kubeconfig_of(address: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": address}}],
        "users": [{"name": "bench", "user": {"token": "t"}}],
    }


def stopped(folder: Path) -> ControlPlane:
    """Return a control plane of this machine, whose streams were all stopped."""
    for part in ("conf/pipelines", "conf/environments"):
        (folder / part).mkdir(parents=True)
    project = SmallProject(folder)
    project.environ("root: .data\n")
    plane = project.plane()
    now = datetime.now(UTC)
    for name in NAMES:
        project.declare(name, STREAM)
        write_desired(plane.store, plane.layout, name, Desired(state="stopped", by="ann"))
        record = DriverRecord(
            pipeline=name,
            mode="stream",
            run_id="run-1",
            digest="d1",
            started_at=now.replace(year=2020),
            log=str(folder / "log"),
        )
        plane.environment.run_folder.mkdir(parents=True, exist_ok=True)
        write_record(plane.environment.run_folder / f"{name}.json", record)
        receipt = Receipt(
            pipeline=name, run_id="run-1", mode="stream", result="clean", exit_code=0, stopped_at=now
        )
        write_receipt(plane.store, plane.layout, receipt)
    return plane


def measure(what: str, plane: ControlPlane, requests: Callable[[], int] = lambda: 0) -> tuple[float, int]:
    """Seconds and requests of a second reconciliation: the first claims the root and loads modules."""
    reconcile_streams(replace(plane))
    started, used, asked = time.monotonic(), time.process_time(), requests()
    outcomes = reconcile_streams(plane)
    seconds, cpu, asked = time.monotonic() - started, time.process_time() - used, requests() - asked
    actions = dict(Counter(outcome.decision.action for outcome in outcomes))
    said = f"{len(outcomes)} streams in {seconds:.1f} s, {cpu:.1f} s of them computing, {asked} requests"
    print(f"{what}: {said}; {actions}", flush=True)
    return seconds, asked


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        with cluster(Path(folder) / "cluster", patch) as (plane, requests):
            on_kubernetes, asked = measure("kubernetes", plane, requests)
        here, _ = measure("this machine", stopped(Path(folder) / "machine"))
    print(f"limits: {LIMIT_SECONDS:.0f} s, {LIMIT_REQUESTS} requests")
    return int(max(on_kubernetes, here) > LIMIT_SECONDS or asked > LIMIT_REQUESTS)


if __name__ == "__main__":
    sys.exit(main())
