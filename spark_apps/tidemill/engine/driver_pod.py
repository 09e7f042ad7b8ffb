"""The pod of a driver, from the environment variables that Kubernetes sets."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from tidemill.errors import FencedError, GateRefusedError
from tidemill.spec.pod import POD_VARIABLES, SCRATCH_FOLDER
from tidemill.spec.project import Pipeline

LOOPBACK = "127.0.0.1"

API_SERVER = "https://kubernetes.default.svc:443"

# Label of executors with the name of their driver's pod, which stays the same over container restarts.
DRIVER_POD_LABEL = "tidemill/driver-pod"

# Maximum length of a label value.
_LABEL_CHARACTERS = 63

log = structlog.get_logger()


@dataclass(frozen=True)
class DriverPod:
    """One process of a driver in its pod.

    Args:
        name: Name of the pod.
        uid: Uid of the pod, which owns the executors.
        ip: Address of the pod, to which executors connect.
        namespace: Namespace of the pod and its executors.
        incarnation: Id of this process, eight hex digits. After a container restart in the same pod, executor
            names must differ from those of the container before.
        scratch: Folder of the pod, which successive containers of the pod share.
    """

    name: str
    uid: str
    ip: str
    namespace: str
    incarnation: str
    scratch: str = SCRATCH_FOLDER

    @property
    def executor_labels(self) -> dict[str, str]:
        """Return the labels that identify the executors of this driver."""
        return {DRIVER_POD_LABEL: self.name[-_LABEL_CHARACTERS:].lstrip("-._")}

    @property
    def owner_reference(self) -> dict[str, str | bool]:
        """Return the reference that makes the pod the owner of an object, so both are deleted together."""
        return {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid, "controller": True}

    @property
    def template_file(self) -> str:
        """Return the path of the pod template of its executors."""
        return f"{self.scratch}/tidemill-executor-{self.incarnation}.json"

    @property
    def fenced_mark(self) -> Path:
        """Return the path of the file that records that a driver in this pod was fenced."""
        return Path(self.scratch) / "tidemill-fenced"


def this_pod(variables: Mapping[str, str] = os.environ) -> DriverPod | None:
    """Return the pod of this process; None outside a pod."""
    name, uid, ip, namespace = (variables.get(variable) for variable in POD_VARIABLES)
    if name and uid and ip and namespace:
        return DriverPod(name, uid, ip, namespace, uuid.uuid4().hex[:8])
    return None


def how_reached(url: str | None, pod: DriverPod | None) -> str:
    """Return how an operator can reach a URL of this driver; empty if there is no URL.

    A forwarded port ends on the pod's loopback interface, so the driver must also listen there.
    """
    if url is None:
        return ""
    port = urlsplit(url).port
    local = f"http://{LOOPBACK}:{port}"
    if pod is None:
        return local
    return f"kubectl -n {pod.namespace} port-forward pod/{pod.name} {port}, then {local}"


def check_first_pod(pod: DriverPod | None, mode: str) -> None:
    """Check that a stream's pod is the first of its StatefulSet, in case an operator has scaled the set.

    The check runs before any claim or write. A second pod that claimed the epoch would be fenced by the
    restarted first pod, and so on without end.

    Raises:
        GateRefusedError: TIDE-K8S-024.
    """
    if pod is not None and mode == "stream" and not pod.name.endswith("-0"):
        raise GateRefusedError(
            "TIDE-K8S-024",
            "A stream has one driver, and this pod is a further one.",
            facts={"pod": pod.name, "namespace": pod.namespace},
            fix=f"kubectl -n {pod.namespace} scale statefulset/{pod.name.rpartition('-')[0]} --replicas=1",
            runbook="two-drivers",
        )


def check_not_fenced(pod: DriverPod | None) -> None:
    """Check that no driver in this pod was fenced before, because the kubelet restarts its container.

    The check runs before any claim or write. Consider a pod whose node was cut off from the API server, and
    which another pod has replaced. Without the check, both pods would claim higher epochs in turn, without
    end.

    Raises:
        FencedError: TIDE-K8S-025.
    """
    if pod is not None and pod.fenced_mark.exists():
        raise FencedError(
            "TIDE-K8S-025",
            "A newer driver has fenced off the one in this pod, and this container was started after that.",
            facts={"pod": pod.name, "namespace": pod.namespace},
            fix="nothing, if the newer one was meant; else start the stream, which makes a new pod",
            runbook="two-drivers",
        )


def mark_fenced(pod: DriverPod | None) -> None:
    """Prevent later containers of this pod from starting a driver."""
    if pod is None:
        return
    try:
        pod.fenced_mark.touch()
    except OSError as error:
        # For example, the disk is full. The next container then claims a higher epoch, as a new pod would.
        log.warning("fenced_mark_not_written", reason=f"{type(error).__name__}: {error}")


def some_pod(pipeline: Pipeline) -> DriverPod | None:
    """Return a placeholder for the future pod, in a plan; None where drivers are not pods."""
    settings = pipeline.environment.spec.kubernetes
    return None if settings is None else DriverPod("<pod>", "<uid>", "<ip>", settings.namespace, "<id>")
