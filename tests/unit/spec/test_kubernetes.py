"""An environment on Kubernetes: what would lose data, break a drain or take over names is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.conf_project import ConfProject
from tests.support.declared import declared
from tidemill.spec import pod
from tidemill.spec.environment import EnvironmentSpec, Resources
from tidemill.spec.project import load_environment, resolve_pipeline
from tidemill.spec.secret_value import read_secret

SETTINGS = {
    "namespace": "plant",
    "image": "docker.io/tidemill/spark:0.1.0",
    "volumes": [{"claim": "tidemill-data", "path": "/data"}],
}
ENVIRONMENT: dict[str, Any] = {"runtime": "kubernetes", "root": "/data/lake", "kubernetes": SETTINGS}


def environment(**keys: Any) -> EnvironmentSpec:
    return EnvironmentSpec.model_validate({**ENVIRONMENT, **keys})


def settings(**keys: Any) -> dict[str, Any]:
    return {**ENVIRONMENT, "kubernetes": {**SETTINGS, **keys}}


def test_little_needs_to_be_said() -> None:
    found = environment().kubernetes
    assert found is not None
    assert (found.owner, found.rpc_secret) == ("tidemill-streams", "tidemill-rpc")
    assert (found.service_accounts.driver, found.service_accounts.executor) == (
        "tidemill-driver",
        "tidemill-executor",
    )
    assert environment().on_change == "leave"


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({**ENVIRONMENT, "kubernetes": None}, id="no settings"),
        pytest.param({"root": ".data", "kubernetes": SETTINGS}, id="settings of a local runtime"),
        pytest.param({"root": ".data", "sizes": {"s": {"executors": {}}}}, id="executors without pods"),
        pytest.param({**ENVIRONMENT, "on_change": "sometimes"}, id="no such thing"),
        pytest.param(settings(namespace="Plant"), id="no namespace"),
        pytest.param(settings(image="spark:1; rm -rf /"), id="no image"),
        pytest.param(settings(image="spark\n"), id="an image with a line break"),
        pytest.param(settings(owner="../x"), id="no object"),
        pytest.param(settings(pipelines={"Orders": {}}), id="no pipeline's name"),
        pytest.param(settings(pipelines={"orders": {"secret": []}}), id="an unknown key of a pipeline"),
        pytest.param(settings(volumes=[{"claim": "x", "path": "data"}]), id="a relative mount"),
        pytest.param(settings(volumes=[{"claim": "x", "path": "/data/../etc"}]), id="a mount that climbs"),
        pytest.param(settings(volumes=[{"claim": "x", "path": "/opt/tidemill"}]), id="over the image"),
        pytest.param(settings(volumes=[{"claim": "x", "path": "/tmp/x"}]), id="over scratch space"),
        pytest.param(
            settings(volumes=[{"claim": "x", "path": "/data"}, {"claim": "y", "path": "/data/y"}]),
            id="one inside the other",
        ),
        pytest.param(settings(pods={"labels": {"tidemill/pipeline": "x"}}), id="our own label"),
        pytest.param(settings(pods={"labels": {"a": "b c"}}), id="no label value"),
        pytest.param(settings(pods={"annotations": {"app.kubernetes.io/x": "y"}}), id="our own annotation"),
        pytest.param(settings(pods={"tolerations": [{"operator": "Equal"}]}), id="half a toleration"),
        pytest.param(
            settings(pods={"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
            id="a value that is not compared",
        ),
        pytest.param({**ENVIRONMENT, "sizes": {"s": {"driver": {"cpu_request": "lots"}}}}, id="no quantity"),
        pytest.param(
            {**ENVIRONMENT, "sizes": {"s": {"executors": {"min": 3, "max": 2}}}}, id="min above max"
        ),
        pytest.param({**ENVIRONMENT, "sizes": {"s": {"executors": {"min": 0}}}}, id="no executor at all"),
    ],
)
def test_what_cannot_work_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EnvironmentSpec.model_validate(document)


@pytest.mark.parametrize("root", [".data", "/lake", "/data2/lake", "file:///lake"])
def test_a_root_that_vanishes_with_its_pod_is_refused_with_the_reason(root: str) -> None:
    with pytest.raises(ValidationError, match="a pod's own folders vanish with it"):
        EnvironmentSpec.model_validate({**ENVIRONMENT, "root": root})


@pytest.mark.parametrize(
    "root", ["/data", "/data/lake", "file:///data/lake", "abfss://c@a.dfs.core.windows.net/x", "s3://b/x"]
)
def test_a_root_that_outlives_pods_is_taken(root: str) -> None:
    assert environment(root=root).root == root


@pytest.mark.parametrize(
    ("resources", "mebibytes"),
    [
        ({"memory": "1g"}, 1024 + 512),
        ({"memory": "10g"}, 10240 + 4096),
        ({"memory": "1g", "memory_overhead": "3g"}, 1024 + 3072),
        ({"memory": 450 * 2**20 + 1}, 450 + 512 + 1),
    ],
)
def test_a_pod_gets_memory_beside_the_heap(resources: dict[str, Any], mebibytes: int) -> None:
    found = pod.container_resources(Resources.model_validate(resources))
    assert found["limits"] == {"memory": f"{mebibytes}Mi"}
    assert found["requests"]["memory"] == f"{mebibytes}Mi"


def test_cores_are_requested_unless_less_is_asked_for() -> None:
    assert pod.container_resources(Resources(cores=2))["requests"]["cpu"] == "2"
    assert pod.container_resources(Resources(cores=2, cpu_request="300m"))["requests"]["cpu"] == "300m"


def test_a_pipeline_with_secrets_of_its_own_mounts_those_and_no_others(tmp_path: Path) -> None:
    own = {"orders": {"rpc_secret": "orders-rpc", "secrets": ["orders-hub"]}, "returns": {"secrets": []}}
    where = settings(secrets=["plant"], pipelines=own)

    def mounted(name: str) -> set[str]:
        volumes = pod.volumes(declared(tmp_path, name, environment=where))
        projected = [
            source for volume in volumes for source in volume.get("projected", {}).get("sources", [])
        ]
        named = [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
        return {*named, *(source["secret"]["name"] for source in projected)}

    assert mounted("orders") == {"orders-rpc", "orders-hub"}
    assert mounted("returns") == {"tidemill-rpc"}
    assert mounted("stock") == {"tidemill-rpc", "plant"}


def test_an_executor_has_no_token_and_shares_what_the_driver_has(tmp_path: Path) -> None:
    where = {**settings(secrets=["plant"]), "sizes": {"small": {"executors": {}}}}
    pipeline = declared(tmp_path, environment=where)
    template = pod.executor_pod(pipeline, "stream", {"tidemill/driver-pod": "tidemill-orders-0"})
    spec = template["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "tidemill-executor"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {
        "/tmp",
        "/home/tidemill",
        "/data",
        "/run/secrets/tidemill",
        "/run/secrets/tidemill-rpc",
    }
    assert template["metadata"]["labels"] == {
        "app.kubernetes.io/name": "tidemill",
        "app.kubernetes.io/component": "executor",
        "app.kubernetes.io/managed-by": "tidemill",
        "tidemill/pipeline": "orders",
        "tidemill/mode": "stream",
        "tidemill/spec-digest": pipeline.definition_digest,
        "tidemill/driver-pod": "tidemill-orders-0",
    }


def test_without_secrets_none_are_mounted(tmp_path: Path) -> None:
    template = pod.executor_pod(declared(tmp_path, environment=ENVIRONMENT), "stream", {})
    assert "secrets" not in {volume["name"] for volume in template["spec"]["volumes"]}


def test_secrets_of_a_pod_are_found_where_they_are_mounted(tmp_path: Path) -> None:
    def folder(**keys: Any) -> Path | None:
        return declared(tmp_path, environment=keys).environment.secrets_folder

    assert folder(**ENVIRONMENT) == Path("/run/secrets/tidemill")
    assert folder(**ENVIRONMENT, secrets={"folder": "/x"}) == Path("/x")
    assert folder() is None
    assert folder(secrets={"folder": "keys"}) == tmp_path / "keys"


def test_a_secret_is_read_from_the_folder_of_its_environment(tmp_path: Path) -> None:
    pipeline = declared(tmp_path, environment={"secrets": {"folder": "keys"}})
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "plant").write_text("value\n")
    assert read_secret(pipeline.environment, "plant", {}) == "value"


WITH_FILES = """
root: .data
kafka: {bootstrap_servers: "localhost:1"}
"""


def digest_of(project: ConfProject) -> str:
    return resolve_pipeline(load_environment(project.load().project, "local", {}), "orders").definition_digest


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("conf/schemas/order.json", '{"type": "object", "properties": {"id": {"type": "integer"}}}'),
        ("spark_apps/transforms/orders.py", "def transform(orders):\n    return orders.limit(1)\n"),
        ("conf/environments/local.yaml", WITH_FILES.replace("localhost:1", "localhost:2")),
        ("conf/environments/local.yaml", WITH_FILES + "sizes: {small: {driver: {cores: 3}}}\n"),
    ],
)
def test_what_decides_what_a_driver_does_changes_its_definition(
    project: ConfProject, file: str, text: str
) -> None:
    project.write("conf/environments/local.yaml", WITH_FILES)
    project.replace("sinks:", "transform: orders:transform\nsinks:")
    before = digest_of(project)
    project.write(file, text)
    assert digest_of(project) != before


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n" + WITH_FILES,
        WITH_FILES + "runtime: local\n",
        WITH_FILES + "sizes: {small: {driver: {cores: 1, memory: 1g}}, large: {driver: {cores: 4}}}\n",
        WITH_FILES + "on_change: restart\nprotected: true\n",
    ],
    ids=["a comment", "a default written out", "another size", "who may change what"],
)
def test_what_does_not_leaves_its_definition_as_it_is(project: ConfProject, text: str) -> None:
    project.write("conf/environments/local.yaml", WITH_FILES)
    before = digest_of(project)
    project.write("conf/environments/local.yaml", text)
    assert digest_of(project) == before


def test_an_upgrade_of_the_image_changes_no_definition(tmp_path: Path) -> None:
    def digest(image: str) -> str:
        return declared(tmp_path, environment=settings(image=image)).definition_digest

    assert digest("spark:1") == digest("spark:2")
