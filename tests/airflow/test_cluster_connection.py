"""The cluster by an Airflow connection: the right one, whatever else this process has loaded, or an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.cluster_project import ENVIRONMENT, ClusterProject
from tests.support.scripted_api_server import (
    LOST,
    TOKEN,
    ScriptedApiServer,
    kubeconfig,
    kubeconfig_of,
    scripted_api_server,
)
from tidemill.control.kubernetes.api import CONFIG_MAPS
from tidemill.control.kubernetes.client import KubernetesClient
from tidemill.control.kubernetes.cluster_access import use_connections
from tidemill.errors import SpecError, UnavailableError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

# Token of a pod's service account.
POD_TOKEN = "token-of-the-pod"


@pytest.fixture(autouse=True)
def airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Yield an Airflow process on a machine outside of the cluster."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    from tidemill_airflow.cluster_connection import settings_by

    use_connections(settings_by)
    yield
    use_connections(None)


@pytest.fixture
def server() -> Iterator[ScriptedApiServer]:
    with scripted_api_server() as server:
        yield server


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process look like a pod of another cluster."""
    from kubernetes.config import incluster_config

    for name, constant, text in (
        ("token", "SERVICE_TOKEN_FILENAME", POD_TOKEN),
        ("ca.crt", "SERVICE_CERT_FILENAME", "certificate"),
    ):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(incluster_config, constant, str(tmp_path / name))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


def connect(patch: pytest.MonkeyPatch, name: str, extra: Any, kind: str = "kubernetes") -> str:
    """Make an Airflow connection."""
    document = {"conn_type": kind, "extra": extra}
    patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(document))
    return name


def settings_of(connection: str) -> Configuration:
    from tidemill_airflow.cluster_connection import settings_by

    return settings_by(connection)


@pytest.mark.parametrize("as_file", [True, False])
def test_a_kubeconfig_in_a_connection_leads_to_its_cluster_and_no_request_is_sent_twice(
    server: ScriptedApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_file: bool
) -> None:
    file = {"kube_config_path": str(kubeconfig(tmp_path, server.address))}
    text = {"kube_config": json.dumps(kubeconfig_of(server.address))}
    client = KubernetesClient("plant", connect(monkeypatch, "plant", file if as_file else text))
    server.answers = [(200, {"metadata": {"uid": "u-1"}}), (LOST, ""), (409, {})]
    assert client.namespace()["metadata"]["uid"] == "u-1"
    assert server.tokens == [TOKEN]
    with pytest.raises(UnavailableError) as caught:
        client.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (caught.value.error_id, len(server.asked)) == ("TIDE-K8S-001", 2)


@pytest.mark.usefixtures("pod")
def test_several_clusters_at_once_are_told_apart_and_from_that_around_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = connect(monkeypatch, "here", {"in_cluster": True})
    hosts = {}
    for name in ("north", "south"):
        folder = tmp_path / name
        folder.mkdir()
        hosts[name] = f"https://{name}.example:6443"
        connect(monkeypatch, name, {"kube_config_path": str(kubeconfig(folder, hosts[name]))})
    hosts[here] = "https://10.0.0.1:443"
    names = [*hosts] * 10
    with ThreadPoolExecutor(len(names)) as threads:
        found = dict(zip(names, threads.map(settings_of, names), strict=True))
    assert {name: settings.host for name, settings in found.items()} == hosts
    tokens = {name: settings.get_api_key_with_prefix("BearerToken") for name, settings in found.items()}
    assert tokens == {"north": f"Bearer {TOKEN}", "south": f"Bearer {TOKEN}", here: f"bearer {POD_TOKEN}"}


def test_a_connection_that_switches_verification_off_does_so_for_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = {"kube_config_path": str(kubeconfig(tmp_path, "https://plant.example:6443"))}
    lax = settings_of(connect(monkeypatch, "lax", {**file, "disable_verify_ssl": True}))
    strict = settings_of(connect(monkeypatch, "strict", file))
    assert (lax.verify_ssl, strict.verify_ssl) == (False, True)


def test_a_connection_that_does_not_exist_is_named_with_what_makes_it() -> None:
    with pytest.raises(UnavailableError) as caught:
        settings_of("nowhere")
    assert (caught.value.error_id, caught.value.facts["connection"]) == ("TIDE-CTRL-060", "nowhere")
    assert "airflow connections add nowhere" in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "kind", "word"),
    [
        ({}, "postgres", "postgres"),
        ({"kube_config_path": "/nowhere/kubeconfig"}, "kubernetes", "ConfigException"),
        ({"in_cluster": True}, "kubernetes", "ConfigException"),
        ({"in_cluster": True, "kube_config": "{}"}, "kubernetes", "mutually exclusive"),
        ({"kube_config": "{users: [token: hunter22"}, "kubernetes", "ParserError"),
        ({"kube_config": {"users": ["hunter22"]}}, "kubernetes", ""),
    ],
)
def test_a_connection_that_leads_nowhere_is_refused_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], kind: str, word: str
) -> None:
    name = connect(monkeypatch, "plant", extra, kind)
    with pytest.raises(UnavailableError) as caught:
        settings_of(name)
    assert caught.value.error_id == "TIDE-CTRL-061"
    assert word in str(caught.value.facts["cause"])
    assert "hunter22" not in f"{caught.value} {caught.value.__cause__}"


def test_a_place_opens_the_cluster_of_its_environment(
    server: ScriptedApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemill_airflow.place import Place

    file = {"kube_config_path": str(kubeconfig(tmp_path, server.address))}
    connect(monkeypatch, "plant", file)
    project = ClusterProject(tmp_path / "project")
    project.on_a_volume(monkeypatch)
    text = (project.folder / "conf/environments/plant.yaml").read_text()
    project.environ(text.replace("  namespace:", "  connection: plant\n  namespace:"))
    plane = Place(str(project.folder), "plant").open()
    server.answers = [(200, {"metadata": {"name": "plant", "uid": "u-1"}})]
    assert plane.runtime.identity().id == "u-1"
    assert server.tokens == [TOKEN]


@pytest.mark.parametrize(
    "name", ["a b", "../../x", "{{ 7*7 }}", '"; rm -rf /"', "", "a\nb", "x" * 10_000, "p\u0301"]
)
def test_a_name_that_could_be_anything_else_is_refused(tmp_path: Path, name: str) -> None:
    project = ClusterProject(tmp_path / "project")
    project.environ(ENVIRONMENT.replace("  image:", f"  connection: {json.dumps(name)}\n  image:"))
    with pytest.raises(SpecError):
        _ = project.environment


def test_another_way_to_the_same_cluster_is_no_other_definition(tmp_path: Path) -> None:
    project = ClusterProject(tmp_path / "project")
    before = project.pipeline().definition_digest
    project.environ(ENVIRONMENT.replace("  image:", "  connection: plant\n  image:"))
    assert project.pipeline().definition_digest == before
