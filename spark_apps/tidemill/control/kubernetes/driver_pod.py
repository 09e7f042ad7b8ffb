"""The pod of a driver, as a template for a StatefulSet or a Job. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.control.driver_command import DriverRun
from tidemill.control.driver_variables import started_by
from tidemill.control.kubernetes.slot_record import (
    ENVIRONMENT_KEY,
    PIPELINE_KEY,
    SLOT_LABEL,
    SlotRecord,
)
from tidemill.control.runtime import slot_of
from tidemill.names import kubernetes_name
from tidemill.spec import pod
from tidemill.spec.project import Pipeline

Part = dict[str, Any]

# Seconds between two probes, and number of allowed failures. Startup: Python and its imports take 2 seconds,
# ten times that on a busy machine; the limit is 300 seconds.
START_PERIOD_SECONDS, START_FAILURES = 5, 60
# Liveness: the driver itself decides, with generous limits (engine/liveness.py); three consecutive failures,
# 90 seconds.
LIVE_PERIOD_SECONDS, LIVE_FAILURES = 30, 3
# Readiness: the first batch is committed.
READY_PERIOD_SECONDS, READY_FAILURES = 5, 3
# Maximum seconds for one answer, which comes from memory, but the machine may be busy.
PROBE_TIMEOUT_SECONDS = 5


def driver_arguments(pipeline: Pipeline, run: DriverRun) -> list[str]:
    """Return the arguments of the image's entry point, for a driver or for an operation's Spark job."""
    program = ["python", "-m", run.program] if run.is_part else ["driver"]
    place = ("--project", pod.PROJECT_FOLDER, "--env", _environment_file(pipeline))
    return [*program, *place, *run.words]


@dataclass(frozen=True)
class DriverProgram:
    """The program of a driver's container.

    Args:
        arguments: Returns the arguments of the image's entry point.
        command: Replaces the entry point.
        has_probes: True if it answers the kubelet's HTTP probes.
    """

    arguments: Callable[[Pipeline, DriverRun], list[str]] = driver_arguments
    command: tuple[str, ...] = ()
    has_probes: bool = True


ENGINE = DriverProgram()


@dataclass(frozen=True)
class Start:
    """One start of a driver, with all inputs for its objects.

    Args:
        pipeline: Its pipeline, with size and environment.
        run: The run.
        record: The claim on the slot.
        owner: Reference to the object that owns all others.
        control_plane: Id of the control plane that decided the start.
        program: The program of its container.
    """

    pipeline: Pipeline
    run: DriverRun
    record: SlotRecord
    owner: Part
    control_plane: str
    program: DriverProgram = ENGINE

    @property
    def slot_name(self) -> str:
        """Return the name of the slot's objects."""
        return kubernetes_name(self.pipeline.name, slot_of(self.run.mode))

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of its objects."""
        own = pod.labels(None, self.pipeline.name, self.run.mode, self.record.digest)
        return {**own, SLOT_LABEL: slot_of(self.run.mode)}

    def metadata(self, name: str) -> Part:
        """Return name, labels and owner of one of its objects."""
        namespace = pod.kubernetes_of(self.pipeline.environment).namespace
        return {
            "name": name,
            "namespace": namespace,
            "labels": self.labels,
            "ownerReferences": [self.owner],
        }


def owner_reference(config_map: Part) -> Part:
    """Return a reference to the ConfigMap that owns all objects of pipelines."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": config_map["metadata"]["name"],
        "uid": config_map["metadata"]["uid"],
    }


def pod_template(start: Start, restart_policy: str) -> Part:
    """Return the pod: labels and annotations of this start, and one restricted container."""
    environment = start.pipeline.environment
    settings = pod.kubernetes_of(environment)
    metadata = pod.pod_metadata(settings, {**start.labels, pod.COMPONENT_LABEL: "driver"})
    return {
        "metadata": {
            "labels": metadata["labels"],
            "annotations": {**metadata["annotations"], **start.record.annotations()},
        },
        "spec": {
            **pod.placement(settings),
            "serviceAccountName": settings.service_accounts.driver,
            # A driver creates and deletes its executors; a Spark job of an operation has none.
            "automountServiceAccountToken": not start.run.is_part
            and start.pipeline.size.executors is not None,
            "enableServiceLinks": False,
            "restartPolicy": restart_policy,
            "terminationGracePeriodSeconds": int(environment.spec.grace_period.total_seconds()),
            "securityContext": pod.pod_security(),
            "containers": [_container(start)],
            "volumes": [*pod.volumes(start.pipeline), _decided_volume(start)],
        },
    }


def _container(start: Start) -> Part:
    settings = pod.kubernetes_of(start.pipeline.environment)
    return {
        "name": pod.DRIVER_CONTAINER,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        **({"command": list(start.program.command)} if start.program.command else {}),
        "args": start.program.arguments(start.pipeline, start.run),
        "env": _variables(start),
        "ports": [
            {"name": "driver", "containerPort": pod.DRIVER_PORT},
            {"name": "block-manager", "containerPort": pod.BLOCK_MANAGER_PORT},
            {"name": "http", "containerPort": pod.HTTP_PORT},
        ],
        "resources": pod.container_resources(start.pipeline.size.driver, start.run.drivers_within),
        "securityContext": pod.container_security(),
        # The console output of a driver that could not log, if it wrote no termination message.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*pod.mounts(start.pipeline), *_decided_mounts(start.pipeline)],
        **(_probes(start.run) if start.program.has_probes else {}),
    }


def _variables(start: Start) -> list[Part]:
    told = {
        pod.POD_NAME_VARIABLE: "metadata.name",
        pod.POD_IP_VARIABLE: "status.podIP",
        pod.POD_UID_VARIABLE: "metadata.uid",
        pod.NAMESPACE_VARIABLE: "metadata.namespace",
    }
    fields = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in told.items()]
    own = started_by(start.run.run_id, start.control_plane, start.run.dag_run)
    return [*fields, *({"name": name, "value": value} for name, value in own.items())]


def _decided_volume(start: Start) -> Part:
    """Return the volume of the slot's ConfigMap, with the declaration and environment of this start."""
    keys = [{"key": key, "path": key} for key in (PIPELINE_KEY, ENVIRONMENT_KEY)]
    return {"name": "decided", "configMap": {"name": start.slot_name, "items": keys}}


def _decided_mounts(pipeline: Pipeline) -> list[Part]:
    declaration = f"{pod.PROJECT_FOLDER}/conf/pipelines/{pipeline.name}.yaml"
    return [
        {"name": "decided", "mountPath": declaration, "subPath": PIPELINE_KEY, "readOnly": True},
        {
            "name": "decided",
            "mountPath": _environment_file(pipeline),
            "subPath": ENVIRONMENT_KEY,
            "readOnly": True,
        },
    ]


def _environment_file(pipeline: Pipeline) -> str:
    return f"{pod.ENVIRONMENT_FOLDER}/{pipeline.environment.name}.yaml"


def _probes(run: DriverRun) -> Part:
    if run.is_part:
        # It has no HTTP server; its starter waits for its result.
        return {}
    alive = {
        "startupProbe": _probe("/healthz", START_PERIOD_SECONDS, START_FAILURES),
        "livenessProbe": _probe("/healthz", LIVE_PERIOD_SECONDS, LIVE_FAILURES),
    }
    if run.mode != "stream":
        # A bounded run needs no readiness; only its end matters.
        return alive
    return {**alive, "readinessProbe": _probe("/readyz", READY_PERIOD_SECONDS, READY_FAILURES)}


def _probe(path: str, period_seconds: int, failures: int) -> Part:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period_seconds,
        "failureThreshold": failures,
        "timeoutSeconds": PROBE_TIMEOUT_SECONDS,
    }
