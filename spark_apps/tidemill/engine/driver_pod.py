"""The pod that a driver runs in, as Kubernetes tells it through the pod's environment variables."""

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

# Says which driver's an executor is, over restarts of that driver.
DRIVER_POD_LABEL = "tidemill/driver-pod"

# Longest value of a label.
_LABEL_CHARACTERS = 63

log = structlog.get_logger()


@dataclass(frozen=True)
class DriverPod:
    """One process of a driver in its pod.

    Args:
        name: Of the pod.
        uid: Of the pod; it owns the executors.
        ip: Of the pod; executors come here.
        namespace: Of all of them.
        incarnation: Names this process, in eight hex digits: a container that is started again in its pod
            must not meet the names of the executors of the one before.
        scratch: The pod's own folder, which all its containers see one after the other.
    """

    name: str
    uid: str
    ip: str
    namespace: str
    incarnation: str
    scratch: str = SCRATCH_FOLDER

    @property
    def executor_labels(self) -> dict[str, str]:
        """What its executors are known by."""
        return {DRIVER_POD_LABEL: self.name[-_LABEL_CHARACTERS:].lstrip("-._")}

    @property
    def owner_reference(self) -> dict[str, str | bool]:
        """Makes the pod the owner of an object, which then vanishes with it."""
        return {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid, "controller": True}

    @property
    def template_file(self) -> str:
        """The template of its executors' pods."""
        return f"{self.scratch}/tidemill-executor-{self.incarnation}.json"

    @property
    def fenced_mark(self) -> Path:
        """Says that a driver in this pod was fenced off."""
        return Path(self.scratch) / "tidemill-fenced"


def this_pod(variables: Mapping[str, str] = os.environ) -> DriverPod | None:
    """The pod of this process; None outside of one."""
    name, uid, ip, namespace = (variables.get(variable) for variable in POD_VARIABLES)
    if name and uid and ip and namespace:
        return DriverPod(name, uid, ip, namespace, uuid.uuid4().hex[:8])
    return None


def how_reached(url: str | None, pod: DriverPod | None) -> str:
    """How a person reaches what a driver serves at an address; empty where it serves nothing.

    A forwarded port ends on the pod's loopback interface, so that is where it must listen, too.
    """
    if url is None:
        return ""
    port = urlsplit(url).port
    local = f"http://{LOOPBACK}:{port}"
    if pod is None:
        return local
    return f"kubectl -n {pod.namespace} port-forward pod/{pod.name} {port}, then {local}"


def check_first_pod(pod: DriverPod | None, mode: str) -> None:
    """See that a stream's pod is the one of its StatefulSet, whatever someone scaled that to.

    Asked before anything is claimed or written: a second pod that took the epoch would be fenced off by the
    restarted first one, and so on for ever.

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
    """See that no driver in this pod was fenced off before: the kubelet starts its container again.

    Asked before anything is claimed or written. A pod whose node was cut off from the API server, and whose
    place another one took, would else claim a higher epoch than that one, and so on for ever.

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
    """Keep further containers of this pod from starting a driver."""
    if pod is None:
        return
    try:
        pod.fenced_mark.touch()
    except OSError as error:
        # A full disk. The next container then claims a higher epoch, as a new pod would.
        log.warning("fenced_mark_not_written", reason=f"{type(error).__name__}: {error}")


def some_pod(pipeline: Pipeline) -> DriverPod | None:
    """Stands for the pod that does not exist yet, in a plan; None where drivers are no pods."""
    settings = pipeline.environment.spec.kubernetes
    return None if settings is None else DriverPod("<pod>", "<uid>", "<ip>", settings.namespace, "<id>")
