"""Airflow connections to a real cluster: by kubeconfig, by a pod's account, and a run claimed by one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.cluster import Cluster
from tests.support.cluster_project import OWNER, ClusterProject, make_owner
from tests.support.eventually import eventually
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import CONFIG_MAPS
from tidemill.control.kubernetes.client import KubernetesClient
from tidemill.control.kubernetes.cluster_access import use_connections
from tidemill.control.kubernetes.driver_pod import DriverProgram
from tidemill.errors import UnavailableError

NAMESPACE = "tidemill-e2e-connections"
IMAGE = "docker.io/library/debian:bookworm-slim"

# Service account of a pod without any rights.
ACCOUNT = "powerless"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(NAMESPACE)
    cluster.create_namespace()
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        for name in ("tidemill-driver", "tidemill-executor", ACCOUNT)
    ]
    secrets = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"secret": "x" * 32}}
        for name in ("tidemill-rpc", "plant")
    ]
    cluster.apply(*accounts, *secrets)
    yield cluster
    cluster.delete_namespace()


@pytest.fixture
def connections(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the connections `outside` (administrator's kubeconfig) and `inside` (a pod without rights)."""
    from kubernetes.config import incluster_config

    from tidemill_airflow.cluster_connection import settings_by

    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    view = ("config", "view", "--raw", "--minify", "--flatten", "--output=json")
    config = json.loads(cluster(*view))
    (server,) = [each["cluster"] for each in config["clusters"]]
    token = cluster("create", "token", ACCOUNT).strip()
    authority = base64.b64decode(server["certificate-authority-data"]).decode()
    for name, constant, text in (
        ("token", "SERVICE_TOKEN_FILENAME", token),
        ("ca.crt", "SERVICE_CERT_FILENAME", authority),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(incluster_config, constant, str(tmp_path / name))
    address = urlsplit(server["server"])
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", address.hostname or "")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(address.port))
    for connection, extra in (
        ("OUTSIDE", {"kube_config": json.dumps(config)}),
        ("INSIDE", {"in_cluster": True}),
    ):
        document = {"conn_type": "kubernetes", "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{connection}", json.dumps(document))
    use_connections(settings_by)
    yield
    use_connections(None)


@pytest.mark.usefixtures("connections")
def test_each_connection_is_who_it_says_and_a_run_is_claimed_proven_and_read_through_one(
    tmp_path: Path,
) -> None:
    outside, inside = (KubernetesClient(NAMESPACE, name) for name in ("outside", "inside"))
    make_owner(outside)
    with pytest.raises(UnavailableError) as caught:
        inside.get(CONFIG_MAPS, OWNER)
    assert caught.value.error_id == "TIDE-K8S-002"
    assert f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}" in caught.value.facts["reason"]

    project = ClusterProject(tmp_path / "project", NAMESPACE, IMAGE)
    program = DriverProgram(lambda _pipeline, _run: ["echo at work"], ("bash", "-c"), has_probes=False)
    runtime, racing = (project.runtime(outside, program=program) for _ in range(2))
    run = DriverRun("daily", "incremental", "run-1")
    driver = runtime.start(run, "d1").driver
    assert racing.start(DriverRun("daily", "incremental", "run-2"), "d1").driver.run_id == driver.run_id
    eventually(lambda: "at work" in runtime.read_log(driver).lines, "its log is read", 120, poll_seconds=0.5)
