"""The pod that a driver runs in, as Kubernetes tells it through the pod's environment variables."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.errors import GateRefusedError
from tidemill.spec.pod import NAMESPACE_VARIABLE, POD_IP_VARIABLE, POD_NAME_VARIABLE, POD_UID_VARIABLE
from tidemill.spec.project import Pipeline

API_SERVER = "https://kubernetes.default.svc:443"

# Says which driver's an executor is, over restarts of that driver.
DRIVER_POD_LABEL = "tidemill/driver-pod"

# Longest value of a label.
_LABEL_CHARACTERS = 63


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
    """

    name: str
    uid: str
    ip: str
    namespace: str
    incarnation: str

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
        return f"/tmp/tidemill-executor-{self.incarnation}.json"  # noqa: S108  # an emptyDir of this pod


def this_pod(variables: Mapping[str, str] = os.environ) -> DriverPod | None:
    """The pod of this process; None outside of one."""
    needed = (POD_NAME_VARIABLE, POD_UID_VARIABLE, POD_IP_VARIABLE, NAMESPACE_VARIABLE)
    name, uid, ip, namespace = (variables.get(variable) for variable in needed)
    if name and uid and ip and namespace:
        return DriverPod(name, uid, ip, namespace, uuid.uuid4().hex[:8])
    return None


def check_first_pod(pod: DriverPod | None, mode: str) -> None:
    """See that a stream's pod is the one of its StatefulSet, whatever somebody scaled that to.

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


def some_pod(pipeline: Pipeline) -> DriverPod | None:
    """Stands for the pod that does not exist yet, in a plan; None where drivers are no pods."""
    settings = pipeline.environment.spec.kubernetes
    return None if settings is None else DriverPod("<pod>", "<uid>", "<ip>", settings.namespace, "<id>")
