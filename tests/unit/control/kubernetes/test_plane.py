"""The environment says where drivers run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cluster_project import ClusterProject
from tidemill.control.kubernetes.kubernetes_runtime import KubernetesRuntime
from tidemill.control.plane import open_control_plane
from tidemill.control.stuck_streams import stuck_stream_findings
from tidemill.errors import UnavailableError


@pytest.fixture
def project(cluster_project: ClusterProject, monkeypatch: pytest.MonkeyPatch) -> ClusterProject:
    """Use a folder of this machine as the volume, as an Airflow pod does."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    cluster_project.on_a_volume(monkeypatch)
    return cluster_project


def test_drivers_of_a_cluster_are_pods(
    project: ClusterProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "test", "user": {"token": "t"}}],
    }
    file.write_text(json.dumps(document))
    monkeypatch.setenv("KUBECONFIG", str(file))
    plane = open_control_plane(project.environment, {})
    assert isinstance(plane.runtime, KubernetesRuntime)
    # No server listens at that address. The error is for the runtime's callers to handle.
    with pytest.raises(UnavailableError):
        plane.running("orders")


def test_without_a_way_to_the_cluster_there_is_no_control_plane(
    project: ClusterProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(UnavailableError) as caught:
        open_control_plane(project.environment, {})
    assert caught.value.error_id == "TIDE-K8S-007"


@pytest.mark.parametrize("names", [(), ("orders",)], ids=["all", "one"])
def test_where_drivers_cannot_be_asked_the_doctor_says_so_and_goes_on(
    project: ClusterProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    (found,) = stuck_stream_findings(project.environment, names)
    assert (found.finding_id, found.severity) == ("TIDE-K8S-007", "note")
    assert found.problem.startswith("Whether it makes progress could not be asked.")
