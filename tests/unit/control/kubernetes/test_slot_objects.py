"""The objects of a slot: locked down, known by their labels, and the same for the same decision."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.support.cluster_project import ClusterProject
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes import slot_objects
from tidemill.control.kubernetes.driver_pod import Start
from tidemill.control.kubernetes.slot_record import HISTORY_KEY, record_of
from tidemill.spec.environment import EnvironmentSpec

FULL = """
runtime: kubernetes
grace_period: 200 seconds
kubernetes:
  namespace: %(namespace)s
  image: %(image)s
  image_pull_policy: Always
  image_pull_secrets: [registry]
  service_accounts: {driver: d, executor: e}
  rpc_secret: rpc
  secrets: [plant, lake]
  volumes: [{claim: lake, path: /data}]
  pods:
    labels: {team: water}
    annotations: {example.com/note: hello}
    node_selector: {disk: ssd}
    tolerations: [{key: streams, operator: Exists, effect: NoSchedule}]
    priority_class: high
    evictable: true
root: /data/lake
secrets: {folder: /secrets}
sizes:
  small:
    driver: {cores: 2, memory: 2g, cpu_request: 500m}
    executors: {min: 1, max: 3}
"""


@pytest.fixture
def start(cluster_project: ClusterProject) -> Start:
    return cluster_project.start(DriverRun("orders", "stream", "run-1"))


@pytest.fixture
def full(cluster_project: ClusterProject) -> Start:
    cluster_project.environ(FULL)
    return cluster_project.start(DriverRun("orders", "stream", "run-1"))


def objects(start: Start) -> list[dict[str, Any]]:
    made = [
        slot_objects.slot_config_map(start, None),
        slot_objects.service(start),
        slot_objects.disruption_budget(start),
        slot_objects.stateful_set(start),
    ]
    return [*made, slot_objects.job(start)]


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = document["spec"]["template"]["spec"]
    return pod


def container_of(document: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod_of(document)["containers"]
    found: dict[str, Any] = container
    return found


def test_every_object_carries_labels_owner_and_namespace(start: Start) -> None:
    for document in objects(start):
        metadata = document["metadata"]
        assert metadata["namespace"] == "plant"
        assert metadata["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "tidemill-streams", "uid": "uid-owner"}
        ]
        assert metadata["labels"] == {
            "app.kubernetes.io/name": "tidemill",
            "app.kubernetes.io/managed-by": "tidemill",
            "tidemill/pipeline": "orders",
            "tidemill/mode": "stream",
            "tidemill/spec-digest": "d1",
            "tidemill/slot": "main",
        }


def test_the_selectors_find_the_driver_pod_and_not_the_executors(start: Start) -> None:
    labels = slot_objects.stateful_set(start)["spec"]["template"]["metadata"]["labels"]
    selectors = [
        slot_objects.service(start)["spec"]["selector"],
        slot_objects.disruption_budget(start)["spec"]["selector"]["matchLabels"],
        slot_objects.stateful_set(start)["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert selector["app.kubernetes.io/component"] == "driver"
        # A StatefulSet's selector never changes: nothing in it may.
        assert "tidemill/spec-digest" not in selector


def test_the_pod_passes_the_standard_restricted(full: Start) -> None:
    for document in (slot_objects.stateful_set(full), slot_objects.job(full)):
        pod, container = pod_of(document), container_of(document)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
        assert kinds <= {"emptyDir", "secret", "projected", "configMap", "persistentVolumeClaim"}


def test_the_pod_is_placed_and_sized_as_the_environment_says(full: Start) -> None:
    document = slot_objects.stateful_set(full)
    pod, container, metadata = (
        pod_of(document),
        container_of(document),
        document["spec"]["template"]["metadata"],
    )
    assert metadata["labels"]["team"] == "water"
    assert metadata["annotations"]["example.com/note"] == "hello"
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "streams", "operator": "Exists", "effect": "NoSchedule"}]
    assert (pod["priorityClassName"], pod["serviceAccountName"]) == ("high", "d")
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["terminationGracePeriodSeconds"] == 200
    # 2g and 40 % of it.
    assert container["resources"] == {
        "requests": {"cpu": "500m", "memory": "2868Mi"},
        "limits": {"memory": "2868Mi"},
    }
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert (mounted["claim-0"], mounted["secrets"]) == ("/data", "/secrets")
    assert mounted["rpc"] == "/run/secrets/tidemill-rpc"


def test_an_account_token_is_mounted_only_where_executors_are_made(
    full: Start, cluster_project: ClusterProject
) -> None:
    assert pod_of(slot_objects.stateful_set(full))["automountServiceAccountToken"] is True
    cluster_project.environ(FULL.replace("    executors: {min: 1, max: 3}\n", ""))
    alone = cluster_project.start(DriverRun("orders", "stream", "run-1"))
    assert pod_of(slot_objects.stateful_set(alone))["automountServiceAccountToken"] is False


def test_the_driver_reads_what_was_decided_not_what_the_image_holds(
    start: Start, cluster_project: ClusterProject
) -> None:
    data = slot_objects.slot_config_map(start, None)["data"]
    assert yaml.safe_load(data["pipeline.yaml"])["description"] == "Rows made from the clock."
    assert data["environment.yaml"] == cluster_project.environment.file.read_text()
    assert EnvironmentSpec.model_validate(yaml.safe_load(data["environment.yaml"]))
    assert json.loads(data["resolved.json"])["slot"] == "main"
    container = container_of(slot_objects.stateful_set(start))
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    declaration = mounts["/opt/tidemill/project/conf/pipelines/orders.yaml"]
    environment = mounts["/etc/tidemill/environment/plant.yaml"]
    assert (declaration["subPath"], environment["subPath"]) == ("pipeline.yaml", "environment.yaml")
    (volume,) = [v for v in pod_of(slot_objects.stateful_set(start))["volumes"] if v["name"] == "decided"]
    assert volume["configMap"]["name"] == slot_objects.slot_config_map(start, None)["metadata"]["name"]


def test_the_driver_is_told_its_run_and_its_pod(start: Start) -> None:
    container = container_of(slot_objects.stateful_set(start))
    assert container["args"] == [
        "driver",
        *("--project", "/opt/tidemill/project"),
        *("--env", "/etc/tidemill/environment/plant.yaml"),
        *("--pipeline", "orders", "--mode", "stream", "--run-id", "run-1"),
    ]
    variables = {each["name"]: each for each in container["env"]}
    assert variables["TIDEMILL_RUN_ID"]["value"] == "run-1"
    assert "TIDEMILL_DAG_RUN" not in variables
    asked = replace(start, run=replace(start.run, dag_run="tidemill_streams run-7"))
    told = {each["name"]: each for each in container_of(slot_objects.stateful_set(asked))["env"]}
    assert told["TIDEMILL_DAG_RUN"]["value"] == "tidemill_streams run-7"
    fields = {
        name: each["valueFrom"]["fieldRef"]["fieldPath"]
        for name, each in variables.items()
        if "valueFrom" in each
    }
    assert fields == {
        "TIDEMILL_POD_NAME": "metadata.name",
        "TIDEMILL_POD_IP": "status.podIP",
        "TIDEMILL_POD_UID": "metadata.uid",
        "TIDEMILL_NAMESPACE": "metadata.namespace",
    }


def test_no_value_of_a_secret_is_in_any_object(full: Start) -> None:
    for document in objects(full):
        text = json.dumps(document)
        # Objects refer to secrets only by name.
        assert '"secretKeyRef"' not in text
        assert "stringData" not in text


def test_a_new_claim_keeps_the_history_and_nothing_else(start: Start) -> None:
    seen = {
        "metadata": {"resourceVersion": "7", "annotations": {"tidemill/drain-requested-at": "then"}},
        "data": {HISTORY_KEY: "{}", "old.yaml": "x"},
    }
    document = slot_objects.slot_config_map(start, seen)
    assert document["metadata"]["resourceVersion"] == "7"
    assert document["metadata"]["annotations"] == start.record.annotations()
    assert set(document["data"]) == {"pipeline.yaml", "environment.yaml", "resolved.json", HISTORY_KEY}


def test_slot_workload_and_pod_tell_of_the_same_start(start: Start) -> None:
    stateful_set = slot_objects.stateful_set(start)
    for document in (
        slot_objects.slot_config_map(start, None),
        stateful_set,
        stateful_set["spec"]["template"],
    ):
        assert record_of(document) == start.record


def test_the_same_start_makes_the_same_objects(start: Start) -> None:
    assert objects(start) == objects(start)


def test_a_disruption_budget_refuses_unless_streams_may_be_moved(start: Start, full: Start) -> None:
    assert slot_objects.disruption_budget(full)["spec"]["maxUnavailable"] == 1


def test_a_stream_is_not_evicted_by_default(start: Start) -> None:
    assert slot_objects.disruption_budget(start)["spec"]["maxUnavailable"] == 0


def test_a_job_makes_one_pod_and_never_a_second(cluster_project: ClusterProject) -> None:
    run = DriverRun("orders", "backfill", "fill-1", ("--from", "2026-01-01T00:00:00Z"))
    start = cluster_project.start(run)
    job = slot_objects.job(start)
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["suspend"] is True
    assert pod_of(job)["restartPolicy"] == "Never"
    assert container_of(job)["args"][-2:] == ["--from", "2026-01-01T00:00:00Z"]
    assert slot_objects.slot_config_map(start, None)["metadata"]["name"] == "tidemill-orders.backfill"
    assert job["metadata"]["labels"]["tidemill/slot"] == "backfill"


def test_a_job_of_another_start_has_another_name(cluster_project: ClusterProject) -> None:
    names = {
        slot_objects.job(cluster_project.start(DriverRun("daily", "incremental", run_id)))["metadata"]["name"]
        for run_id in ("run-1", "run-2", "run-1")
    }
    assert len(names) == 2


def test_the_kubelet_waits_longer_than_a_driver_drains(start: Start) -> None:
    pod = pod_of(slot_objects.stateful_set(start))
    environment = start.pipeline.environment.spec
    assert pod["terminationGracePeriodSeconds"] == environment.grace_period.total_seconds()
    assert pod["terminationGracePeriodSeconds"] > environment.drain_time.total_seconds()


def test_a_pod_is_probed_on_the_port_it_names(start: Start) -> None:
    container = container_of(slot_objects.stateful_set(start))
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {
        "driver": 7078,
        "block-manager": 7079,
        "http": 8080,
    }
    paths = {probe: container[probe]["httpGet"] for probe in container if probe.endswith("Probe")}
    assert paths == {
        "startupProbe": {"path": "/healthz", "port": "http"},
        "livenessProbe": {"path": "/healthz", "port": "http"},
        "readinessProbe": {"path": "/readyz", "port": "http"},
    }


def test_nobody_waits_for_a_bounded_run_to_get_ready(cluster_project: ClusterProject) -> None:
    job = slot_objects.job(cluster_project.start(DriverRun("daily", "incremental", "run-1")))
    assert "livenessProbe" in container_of(job)
    assert "readinessProbe" not in container_of(job)
