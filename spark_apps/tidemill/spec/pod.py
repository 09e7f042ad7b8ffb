"""The common parts of driver and executor pods, as Kubernetes documents. Pure functions.

`tidemill.control.kubernetes` creates drivers, and Spark creates executors from a template that the engine
writes. Every part meets the pod security level `restricted`. Each call returns new maps and lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tidemill.spec.environment import Resources
from tidemill.spec.kubernetes import KubernetesSettings
from tidemill.spec.project import Environment, Pipeline

Part = dict[str, Any]
Component = Literal["driver", "executor"]

# User and group of the images (docker/), so that they own their volumes.
USER_ID = 10001

# Folder of the project in the images, and mount paths in a pod.
PROJECT_FOLDER = "/opt/tidemill/project"
ENVIRONMENT_FOLDER = "/etc/tidemill/environment"
RPC_SECRET_FOLDER = "/run/secrets/tidemill-rpc"  # noqa: S105  # a folder's name
RPC_SECRET_FILE = f"{RPC_SECRET_FOLDER}/secret"
HOME_FOLDER = "/home/tidemill"

# Scratch space of a pod. An emptyDir lives as long as the pod and survives restarts of its container.
SCRATCH_FOLDER = "/tmp"  # noqa: S108  # not shared with other pods

# Ports of a driver pod. Fixed, so that network policies can name them.
DRIVER_PORT = 7078
BLOCK_MANAGER_PORT = 7079
HTTP_PORT = 8080

# Environment variables with the identity of a driver's pod.
POD_NAME_VARIABLE = "TIDEMILL_POD_NAME"
POD_IP_VARIABLE = "TIDEMILL_POD_IP"
POD_UID_VARIABLE = "TIDEMILL_POD_UID"
NAMESPACE_VARIABLE = "TIDEMILL_NAMESPACE"
POD_VARIABLES = (POD_NAME_VARIABLE, POD_UID_VARIABLE, POD_IP_VARIABLE, NAMESPACE_VARIABLE)

NAME_LABEL = "app.kubernetes.io/name"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
PIPELINE_LABEL = "tidemill/pipeline"
MODE_LABEL = "tidemill/mode"
DIGEST_LABEL = "tidemill/spec-digest"

# Memory of a pod outside the JVM's heap. The factor is Spark's for Python (40 %). The minimum is enough for
# the smallest driver's metaspace, threads and two Python workers with Arrow (about 400 MB measured).
OVERHEAD_FACTOR = 0.4
LEAST_OVERHEAD = 512 * 2**20

# Names of the containers.
DRIVER_CONTAINER = "driver"
EXECUTOR_CONTAINER = "executor"


def labels(component: Component | None, pipeline: str, mode: str, digest: str) -> dict[str, str]:
    """Return the labels of a pipeline's object; `component` is None for objects other than pods."""
    part = {} if component is None else {COMPONENT_LABEL: component}
    return {
        NAME_LABEL: "tidemill",
        MANAGED_BY_LABEL: "tidemill",
        PIPELINE_LABEL: pipeline,
        MODE_LABEL: mode,
        DIGEST_LABEL: digest,
        **part,
    }


def pod_metadata(settings: KubernetesSettings, own: Mapping[str, str]) -> Part:
    """Return the labels and annotations of a pod: those of the environment, then Tidemill's."""
    return {
        "labels": {**settings.pods.labels, **own},
        "annotations": dict(settings.pods.annotations),
    }


def pod_security() -> Part:
    """Return the security context of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        # Avoids changing all files of a large volume at every start.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Part:
    """Return the security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }


def placement(settings: KubernetesSettings) -> Part:
    """Return the fields of a pod's `spec` for placement and image registry."""
    pods = settings.pods
    part: Part = {}
    if pods.node_selector:
        part["nodeSelector"] = dict(pods.node_selector)
    if pods.tolerations:
        part["tolerations"] = [each.model_dump(exclude_none=True) for each in pods.tolerations]
    if pods.priority_class is not None:
        part["priorityClassName"] = pods.priority_class
    if settings.image_pull_secrets:
        part["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return part


def volumes(pipeline: Pipeline) -> list[Part]:
    """Return the volumes of a pod: scratch space, the claims, the pipeline's secrets."""
    settings = kubernetes_of(pipeline.environment)
    claims = [
        {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": volume.claim}}
        for number, volume in enumerate(settings.volumes)
    ]
    # Group-readable: fsGroup is the pods' group.
    rpc = {"secretName": settings.rpc_secret_of(pipeline.name), "defaultMode": 0o440}
    parts: list[Part] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "home", "emptyDir": {}},
        {"name": "rpc", "secret": rpc},
        *claims,
    ]
    if _has_secrets(pipeline):
        sources = [{"secret": {"name": name}} for name in settings.secrets_of(pipeline.name)]
        parts.append({"name": "secrets", "projected": {"sources": sources, "defaultMode": 0o440}})
    return parts


def mounts(pipeline: Pipeline) -> list[Part]:
    """Return the volume mounts of a container."""
    settings = kubernetes_of(pipeline.environment)
    claims = [
        {"name": f"claim-{number}", "mountPath": volume.path}
        for number, volume in enumerate(settings.volumes)
    ]
    parts: list[Part] = [
        {"name": "tmp", "mountPath": SCRATCH_FOLDER},
        {"name": "home", "mountPath": HOME_FOLDER},
        {"name": "rpc", "mountPath": RPC_SECRET_FOLDER, "readOnly": True},
        *claims,
    ]
    if _has_secrets(pipeline):
        folder = str(pipeline.environment.secrets_folder)
        parts.append({"name": "secrets", "mountPath": folder, "readOnly": True})
    return parts


def executor_pod(pipeline: Pipeline, mode: str, further_labels: Mapping[str, str]) -> Part:
    """Return the pod template of a driver's executors.

    Spark sets image, command, ports and resources, and uses the pod's first container as the executor.
    """
    settings = kubernetes_of(pipeline.environment)
    own = labels("executor", pipeline.name, mode, pipeline.definition_digest)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata(settings, {**own, **further_labels}),
        "spec": {
            **placement(settings),
            "serviceAccountName": settings.service_accounts.executor,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "restartPolicy": "Never",
            "securityContext": pod_security(),
            "containers": [
                {
                    "name": EXECUTOR_CONTAINER,
                    "securityContext": container_security(),
                    "volumeMounts": mounts(pipeline),
                }
            ],
            "volumes": volumes(pipeline),
        },
    }


def memory_overhead(resources: Resources) -> int:
    """Return the memory of a container outside the heap."""
    if resources.memory_overhead is not None:
        return resources.memory_overhead
    return max(round(resources.memory * OVERHEAD_FACTOR), LEAST_OVERHEAD)


def container_resources(resources: Resources, drivers_within: int = 0) -> Part:
    """Return requests and limits of a container for a driver, or for a process that starts drivers in it.

    Memory is requested in full, so that nodes are never overcommitted and no driver is killed because of
    another. CPU has no limit, because a throttled driver would miss its trigger while the node is idle.
    """
    # Whole mebibytes, because Kubernetes refuses fractions of a byte.
    driver = resources.memory + memory_overhead(resources)
    needed = drivers_within * driver + LEAST_OVERHEAD if drivers_within else driver
    memory = f"{-(-needed // 2**20)}Mi"
    return {
        "requests": {"cpu": resources.cpu_request or str(resources.cores), "memory": memory},
        "limits": {"memory": memory},
    }


def kubernetes_of(environment: Environment) -> KubernetesSettings:
    """Return the Kubernetes settings of an environment, which its model requires for that runtime."""
    settings = environment.spec.kubernetes
    assert settings is not None, environment.file  # noqa: S101  # for the type checker
    return settings


def _has_secrets(pipeline: Pipeline) -> bool:
    environment = pipeline.environment
    return (
        bool(kubernetes_of(environment).secrets_of(pipeline.name)) and environment.secrets_folder is not None
    )
