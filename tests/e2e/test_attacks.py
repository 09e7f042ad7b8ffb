"""Attacks by the author of a transform: requests from inside a driver's pod, with the pod's own token.

Requests that would change something are dry runs: the API server decides as it would for a real one, and does
nothing.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Document, uid_of
from tests.support.platform import BRONZE, WINDOWS, Platform
from tests.support.release import NAME, RPC_OF_BRONZE
from tidemill.names import kubernetes_name

pytestmark = pytest.mark.core

DRIVER, OTHER_DRIVER = f"{kubernetes_name(WINDOWS)}-0", f"{kubernetes_name(BRONZE)}-0"
REQUESTER = (Path(__file__).parent / "requester.py").read_text()

MERGE = "application/merge-patch+json"
DRY = "dryRun=All"

REFUSED = 403

Request = list[Any]


def post(path: str, body: Document) -> Request:
    return ["POST", f"{path}?{DRY}", "application/json", body]


def patch(path: str, body: Document) -> Request:
    return ["PATCH", f"{path}?{DRY}", MERGE, body]


def delete(path: str) -> Request:
    return ["DELETE", f"{path}?{DRY}"]


def get(path: str) -> Request:
    return ["GET", path]


def ask(platform: Platform, requests: dict[str, Request]) -> dict[str, tuple[int, str]]:
    """Return status and message of the API server for each request from inside the driver's pod."""
    platform.until_healthy(WINDOWS)
    inside = ("exec", "--stdin", DRIVER, "--container=driver", "--", "python", "-c", REQUESTER)
    answers = json.loads(platform.streams(*inside, stdin=json.dumps(list(requests.values()))))
    return dict(zip(requests, map(tuple, answers), strict=True))


def executor(platform: Platform) -> Document:
    """Return an executor as Spark makes it: a running one without the fields that the cluster has added."""
    pod = platform.executors(WINDOWS)[0]
    kept = {
        key: pod["metadata"][key]
        for key in ("labels", "annotations", "ownerReferences")
        if key in pod["metadata"]
    }
    spec = {
        key: value for key, value in pod["spec"].items() if key not in ("nodeName", "tolerations", "priority")
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one-more", **kept}, "spec": spec}


def in_namespace(platform: Platform) -> tuple[str, str]:
    """Paths of both namespaces: Airflow's and the streams'."""
    places = (platform.cluster, platform.streams)
    airflow, streams = (f"/api/v1/namespaces/{place.namespace}" for place in places)
    return airflow, streams


def test_what_spark_needs_is_allowed(platform: Platform) -> None:
    _, streams = in_namespace(platform)
    platform.until_healthy(WINDOWS)
    own = platform.executors(WINDOWS)[0]["metadata"]["name"]
    of_driver = f"labelSelector=tidemill/driver-pod%3D{DRIVER}"
    answers = ask(
        platform,
        {
            "make an executor": post(f"{streams}/pods", executor(platform)),
            "look at it": get(f"{streams}/pods/{own}"),
            "list executors": get(f"{streams}/pods?{of_driver}"),
            "watch them": get(f"{streams}/pods?watch=true&timeoutSeconds=1&{of_driver}"),
            "remove one": delete(f"{streams}/pods/{own}"),
            "remove what an earlier process left": ["DELETE", f"{streams}/pods?{DRY}&{of_driver}"],
        },
    )
    assert {name: status // 100 for name, (status, _) in answers.items()} == dict.fromkeys(answers, 2), (
        answers
    )


def test_nothing_that_exists_can_be_read_changed_or_entered(platform: Platform) -> None:
    airflow, streams = in_namespace(platform)
    change = {"data": {"new": "text"}}
    requests = {
        "change the environment": patch(f"{airflow}/configmaps/{NAME}-environment", change),
        "change Airflow's settings": patch(f"{airflow}/configmaps/{NAME}-airflow-settings", change),
        "change the own slot": patch(f"{streams}/configmaps/{kubernetes_name(WINDOWS)}", change),
        "change another slot": patch(f"{streams}/configmaps/{kubernetes_name(BRONZE)}", change),
        "change the owner": patch(f"{streams}/configmaps/{NAME}-streams", change),
        "delete the owner of all streams": delete(f"{streams}/configmaps/{NAME}-streams"),
        "read Airflow's Secrets": get(f"{airflow}/secrets"),
        "read the streams' Secrets": get(f"{streams}/secrets"),
        "read one Secret": get(f"{streams}/secrets/{NAME}-rpc"),
        "enter the scheduler": post(f"{airflow}/pods/{NAME}-scheduler-0/exec?command=id&stdout=true", {}),
        "enter another driver": post(f"{streams}/pods/{OTHER_DRIVER}/exec?command=id&stdout=true", {}),
        "forward a port of the scheduler": post(f"{airflow}/pods/{NAME}-scheduler-0/portforward", {}),
        "read another driver's log": get(f"{streams}/pods/{OTHER_DRIVER}/log"),
        "add a container to another driver": patch(f"{streams}/pods/{OTHER_DRIVER}/ephemeralcontainers", {}),
        "evict another driver": post(f"{streams}/pods/{OTHER_DRIVER}/eviction", {}),
        "change the own pod": patch(f"{streams}/pods/{DRIVER}", {"metadata": {"labels": {"a": "b"}}}),
        "look at Airflow's pods": get(f"{airflow}/pods"),
        "delete the scheduler": delete(f"{airflow}/pods/{NAME}-scheduler-0"),
        "delete another driver": delete(f"{streams}/pods/{OTHER_DRIVER}"),
        "delete the own driver": delete(f"{streams}/pods/{DRIVER}"),
        "delete all pods": delete(f"{streams}/pods"),
        "delete another's executors": [
            "DELETE", f"{streams}/pods?{DRY}&labelSelector=tidemill/driver-pod%3D{OTHER_DRIVER}"],
        "delete the API server's Service": delete(f"{airflow}/services/{NAME}-api-server"),
        "delete another stream's Service": delete(f"{streams}/services/{kubernetes_name(BRONZE)}"),
        "make a Service": post(f"{streams}/services", {}),
        "delete the data": delete(f"{streams}/persistentvolumeclaims/{NAME}-data"),
        "make a claim": post(f"{streams}/persistentvolumeclaims", {}),
        "scale another stream": patch(
            f"/apis/apps/v1/namespaces/{platform.streams.namespace}/statefulsets/{kubernetes_name(BRONZE)}",
            {"spec": {"replicas": 0}}),
        "make a Job": post(f"/apis/batch/v1/namespaces/{platform.streams.namespace}/jobs", {}),
        "lift the network policies": delete(
            f"/apis/networking.k8s.io/v1/namespaces/{platform.streams.namespace}/networkpolicies/{NAME}-streams"),
        "take more rights": post(
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{platform.streams.namespace}/rolebindings", {}),
        "a token of Airflow": post(f"{airflow}/serviceaccounts/{NAME}-airflow/token", {}),
        "a token of the own account": post(f"{streams}/serviceaccounts/{NAME}-driver/token", {}),
        "lift the admission policy": delete(
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/"
            f"{platform.cluster.namespace}-{NAME}-executors"),
        "lift pod security": patch(f"/api/v1/namespaces/{platform.streams.namespace}", {}),
        "make a volume": post("/api/v1/persistentvolumes", {}),
        "look at nodes": get("/api/v1/nodes"),
    }  # fmt: skip
    answers = ask(platform, requests)
    assert {name: answer for name, answer in answers.items() if answer[0] != REFUSED} == {}


@dataclass(frozen=True)
class Changed:
    """An executor as Spark makes it, with one thing changed."""

    good: Document

    def metadata(self, change: Callable[[Document], Any]) -> Document:
        pod = copy.deepcopy(self.good)
        change(pod["metadata"])
        return pod

    def label(self, name: str, value: str) -> Document:
        return self.metadata(lambda metadata: metadata["labels"].update({name: value}))

    def spec(self, **fields: Any) -> Document:
        return {**self.good, "spec": {**self.good["spec"], **fields}}

    def account(self, name: str) -> Document:
        return self.spec(serviceAccountName=name, serviceAccount=name)

    def container(self, **fields: Any) -> Document:
        return self.spec(containers=[{**self.good["spec"]["containers"][0], **fields}])

    def volume(self, **source: Any) -> Document:
        return self.spec(volumes=[*self.good["spec"]["volumes"], {"name": "more", **source}])


def of_somebody_else(changed: Changed, other_driver: str) -> dict[str, Document]:
    """Return pods that claim another identity, or belong to another owner."""
    return {
        "no owner": changed.metadata(lambda metadata: metadata.pop("ownerReferences")),
        "another owner": changed.metadata(lambda each: each["ownerReferences"][0].update(uid=other_driver)),
        "no labels": changed.metadata(lambda metadata: metadata.pop("labels")),
        "a driver's label": changed.label("app.kubernetes.io/component", "driver"),
        "a scheduler's label": changed.label("app.kubernetes.io/component", "scheduler"),
        "another pipeline": changed.label("tidemill/pipeline", BRONZE),
        "another driver's": changed.label("tidemill/driver-pod", OTHER_DRIVER),
        "Airflow's account": changed.account(f"{NAME}-airflow"),
        "a driver's account": changed.account(f"{NAME}-driver"),
        "the default account": changed.account("default"),
        "a token": changed.spec(automountServiceAccountToken=True),
    }


def with_what_is_not_theirs(changed: Changed, image: str) -> dict[str, Document]:
    """Return pods that run or read something else."""
    other = "docker.io/library/debian:bookworm-slim"
    variable = {"secretKeyRef": {"name": f"{NAME}-rpc", "key": "secret"}}
    token = {"serviceAccountToken": {"path": "token"}}
    return {
        "another image": changed.container(image=other),
        "an image of a like name": changed.container(image=image.replace("/spark:", "/spark-2:")),
        "another image before it": changed.spec(initContainers=[{"name": "first", "image": other}]),
        "a token by another way": changed.volume(projected={"sources": [token]}),
        "another pipeline's Secret": changed.volume(secret={"secretName": RPC_OF_BRONZE}),
        "the same, projected": changed.volume(projected={"sources": [{"secret": {"name": RPC_OF_BRONZE}}]}),
        "a Secret as a variable": changed.container(env=[{"name": "A", "valueFrom": variable}]),
        "a Secret as all variables": changed.container(envFrom=[{"secretRef": {"name": RPC_OF_BRONZE}}]),
        "a ConfigMap": changed.volume(configMap={"name": kubernetes_name(BRONZE)}),
        "another claim": changed.volume(persistentVolumeClaim={"claimName": f"{NAME}-broker"}),
    }


def with_something_of_the_node(changed: Changed) -> dict[str, Document]:
    """Return pods that would break out of their container."""
    own_disk = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    privileged = {"privileged": True, "allowPrivilegeEscalation": True}
    return {
        "a folder of the node": changed.volume(hostPath={"path": "/"}),
        "a disk of its own": changed.volume(ephemeral={"volumeClaimTemplate": {"spec": own_disk}}),
        "privilege": changed.container(securityContext=privileged),
        "root": changed.container(securityContext={"runAsUser": 0, "runAsNonRoot": False}),
        "the node's network": changed.spec(hostNetwork=True),
        "the node's processes": changed.spec(hostPID=True),
        "a port of the node": changed.container(ports=[{"containerPort": 7079, "hostPort": 7079}]),
        "a chosen node": changed.spec(nodeName="node"),
        "a system's priority": changed.spec(priorityClassName="system-node-critical"),
    }


def test_a_driver_can_make_its_own_executors_and_no_other_pod(platform: Platform) -> None:
    airflow, streams = in_namespace(platform)
    other_driver = str(uid_of(platform.until_healthy(BRONZE)))
    changed = Changed(executor(platform))
    pods = {
        **of_somebody_else(changed, other_driver),
        **with_what_is_not_theirs(changed, platform.release.image("spark")),
        **with_something_of_the_node(changed),
    }
    requests = {name: post(f"{streams}/pods", pod) for name, pod in pods.items()}
    requests["an executor where Airflow is"] = post(f"{airflow}/pods", changed.good)
    answers = ask(platform, requests)
    assert {name: answer for name, answer in answers.items() if answer[0] != REFUSED} == {}
