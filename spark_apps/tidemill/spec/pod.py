"""What driver pods and executor pods have in common, as parts of Kubernetes documents. Pure.

Drivers are made by `tidemill.control.kubernetes`, executors by Spark from a template that the engine writes.
Every part fits the pod security level `restricted`. Each call makes new maps and lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tidemill.spec.environment import Resources
from tidemill.spec.kubernetes import KubernetesSettings
from tidemill.spec.project import Environment, Pipeline

Part = dict[str, Any]
Component = Literal["driver", "executor"]

# User and group of the images (docker/), so that volumes are theirs.
USER_ID = 10001

# Where the images keep the project, and where a pod finds what is mounted into it.
PROJECT_FOLDER = "/opt/tidemill/project"
ENVIRONMENT_FOLDER = "/etc/tidemill/environment"
RPC_SECRET_FOLDER = "/run/secrets/tidemill-rpc"  # noqa: S105  # a folder's name
RPC_SECRET_FILE = f"{RPC_SECRET_FOLDER}/secret"
HOME_FOLDER = "/home/tidemill"

# A pod's own scratch space, an emptyDir: it lives as long as the pod, over restarts of its container.
SCRATCH_FOLDER = "/tmp"  # noqa: S108  # not shared with anybody

# Ports of a driver pod. Fixed, so that network policies can name them.
DRIVER_PORT = 7078
BLOCK_MANAGER_PORT = 7079
HTTP_PORT = 8080

# Variables by which a driver knows its pod.
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

# Memory of a pod beside the JVM's heap: as Spark reckons for Python (40 %), and enough for the smallest
# driver's metaspace, threads and two Python workers with Arrow (about 400 MB measured).
OVERHEAD_FACTOR = 0.4
LEAST_OVERHEAD = 512 * 2**20

# Names of the containers.
DRIVER_CONTAINER = "driver"
EXECUTOR_CONTAINER = "executor"


def labels(component: Component | None, pipeline: str, mode: str, digest: str) -> dict[str, str]:
    """Labels of an object of a pipeline; `component` is None for one that is no pod."""
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
    """Labels and annotations of a pod: those of the environment, then our own."""
    return {
        "labels": {**settings.pods.labels, **own},
        "annotations": dict(settings.pods.annotations),
    }


def pod_security() -> Part:
    """Security context of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        # A big volume's files are not all touched at every start.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Part:
    """Security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }


def placement(settings: KubernetesSettings) -> Part:
    """Where a pod may run and from where its image may come: fields of a pod's `spec`."""
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
    """Volumes of a pod: scratch space, the claims, the pipeline's secrets."""
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
    """Where a container finds them."""
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
    """Spark's template of the executors of a driver; image, command, ports and resources are Spark's to set.

    Spark takes the pod's first container for the executor's.
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
    """Memory of a container beside the heap."""
    if resources.memory_overhead is not None:
        return resources.memory_overhead
    return max(round(resources.memory * OVERHEAD_FACTOR), LEAST_OVERHEAD)


def container_resources(resources: Resources, drivers_within: int = 0) -> Part:
    """Requests and limits of a container: of a driver, or of a process that starts some within.

    Memory is requested in full, so that a node is never overbooked and a driver not killed for another's
    sake. Processor time has no limit: a throttled driver misses its trigger while the node idles.
    """
    # Whole mebibytes; Kubernetes takes fractions of a byte for a mistake.
    driver = resources.memory + memory_overhead(resources)
    needed = drivers_within * driver + LEAST_OVERHEAD if drivers_within else driver
    memory = f"{-(-needed // 2**20)}Mi"
    return {
        "requests": {"cpu": resources.cpu_request or str(resources.cores), "memory": memory},
        "limits": {"memory": memory},
    }


def kubernetes_of(environment: Environment) -> KubernetesSettings:
    """The settings of an environment whose drivers run on Kubernetes; its model sees to it."""
    settings = environment.spec.kubernetes
    assert settings is not None, environment.file  # noqa: S101  # for the type checker
    return settings


def _has_secrets(pipeline: Pipeline) -> bool:
    environment = pipeline.environment
    return (
        bool(kubernetes_of(environment).secrets_of(pipeline.name)) and environment.secrets_folder is not None
    )
