"""Identity of a namespace's control plane for all its users; a laptop with the same root is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api_server import ApiServerInMemory
from tests.support.cluster_project import OWNER, ClusterProject, make_owner
from tests.support.drivers_as_pods import POD
from tests.support.small_project import STREAM, small_project
from tests.support.stream_requests import by_name
from tidemill.checkpoint.root_owner import CONTROL_PLANE_VARIABLE
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.kubernetes.api import CONFIG_MAPS, PODS
from tidemill.control.plane import ControlPlane
from tidemill.errors import GateRefusedError
from tidemill.storage.store import Store


@pytest.fixture
def project(cluster_project: ClusterProject, monkeypatch: pytest.MonkeyPatch) -> ClusterProject:
    cluster_project.on_a_volume(monkeypatch)
    return cluster_project


def plane_of(project: ClusterProject, api: ApiServerInMemory) -> ControlPlane:
    """Return the control plane of a scheduler pod, or of a command line with KUBECONFIG."""
    environment = project.environment
    return ControlPlane(environment, Store(environment.layout.root), project.runtime(api))


def test_a_release_that_was_reinstalled_is_the_same_control_plane(
    project: ClusterProject, api: ApiServerInMemory
) -> None:
    plane_of(project, api).own()
    api.delete(CONFIG_MAPS, OWNER, {})
    make_owner(api)
    plane_of(project, api).own()
    assert by_name(reconcile_streams(plane_of(project, api))) == {"orders": "start"}


def test_a_namespace_of_the_same_name_elsewhere_is_another_control_plane(
    project: ClusterProject, api: ApiServerInMemory
) -> None:
    plane_of(project, api).own()
    elsewhere = ApiServerInMemory(uid="uid-of-another-cluster")
    make_owner(elsewhere)
    with pytest.raises(GateRefusedError) as caught:
        reconcile_streams(plane_of(project, elsewhere))
    assert (caught.value.error_id, caught.value.facts["owner"]) == (
        "TIDE-CTRL-010",
        "kubernetes, namespace plant, id uid-name",
    )
    elsewhere.settle()
    assert elsewhere.running_pods == []


def test_a_laptop_with_the_clusters_root_is_refused(
    project: ClusterProject, api: ApiServerInMemory, tmp_path: Path
) -> None:
    plane_of(project, api).own()
    with small_project(tmp_path / "laptop") as laptop:
        # The environment is like conf/environments/azure.yaml, with the same root and `runtime: local`.
        laptop.environ(f"runtime: local\nroot: {project.environment.layout.root}\n")
        laptop.declare("orders", STREAM)
        with pytest.raises(GateRefusedError) as caught:
            reconcile_streams(laptop.plane())
    assert caught.value.error_id == "TIDE-CTRL-010"
    assert caught.value.facts["owner"] == "kubernetes, namespace plant, id uid-name"


def test_a_driver_is_told_which_control_plane_has_started_it(
    project: ClusterProject, api: ApiServerInMemory
) -> None:
    reconcile_streams(plane_of(project, api))
    api.settle()
    pod = api.get(PODS, POD)
    assert pod is not None
    (container,) = pod["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert variables[CONTROL_PLANE_VARIABLE] == "uid-namespace"
