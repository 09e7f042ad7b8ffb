"""The Kubernetes documents of a slot: the ConfigMap, and the objects of a stream or a bounded run. Pure."""

from __future__ import annotations

import json
from typing import Any

from tidemill.control.kubernetes.api import Document
from tidemill.control.kubernetes.driver_pod import Start, pod_template
from tidemill.control.kubernetes.slot_record import (
    ENVIRONMENT_KEY,
    HISTORY_KEY,
    PIPELINE_KEY,
    RESOLVED_KEY,
    SLOT_LABEL,
)
from tidemill.names import kubernetes_name
from tidemill.spec import pod
from tidemill.spec.project import describe

# Labels by which service, disruption budget and StatefulSet select a stream's pod. They never change, because
# a StatefulSet's selector is immutable.
_SELECTING = (pod.NAME_LABEL, pod.PIPELINE_LABEL, pod.MODE_LABEL)

# Seconds for which the Job of an ended run and its log are kept: a night and a day.
KEPT_SECONDS = 36 * 3600

# Pod templates that a StatefulSet keeps. Only the newest is ever used, because a start replaces the template.
KEPT_TEMPLATES = 2


def slot_config_map(start: Start, seen: Document | None) -> Document:
    """Return the slot's ConfigMap for a new claim; with `seen`, as its replacement with its history."""
    environment = start.pipeline.environment
    before = {} if seen is None else seen
    metadata = start.metadata(start.slot_name)
    if seen is not None:
        metadata["resourceVersion"] = seen["metadata"]["resourceVersion"]
    declaration = environment.project.pipeline_file(start.pipeline.name)
    data = {
        PIPELINE_KEY: declaration.read_text("utf-8"),
        ENVIRONMENT_KEY: environment.file.read_text("utf-8"),
        RESOLVED_KEY: json.dumps(_resolved(start), indent=1, sort_keys=True),
    }
    history = (before.get("data") or {}).get(HISTORY_KEY)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "annotations": start.record.annotations()},
        "data": data if history is None else {**data, HISTORY_KEY: history},
    }


def service(start: Start) -> Document:
    """Return the headless Service of a stream's pod, also for a pod that is not ready.

    Executors need the pod's name before it is ready.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": start.metadata(kubernetes_name(start.pipeline.name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _selector(start),
            "ports": [
                {"name": "driver", "port": pod.DRIVER_PORT, "targetPort": "driver"},
                {"name": "block-manager", "port": pod.BLOCK_MANAGER_PORT, "targetPort": "block-manager"},
                {"name": "http", "port": pod.HTTP_PORT, "targetPort": "http"},
            ],
        },
    }


def disruption_budget(start: Start) -> Document:
    """Return the disruption budget, which limits evictions of a running stream."""
    evictable = pod.kubernetes_of(start.pipeline.environment).pods.evictable
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": start.metadata(kubernetes_name(start.pipeline.name)),
        "spec": {
            "maxUnavailable": 1 if evictable else 0,
            "selector": {"matchLabels": _selector(start)},
            # A driver that does not get ready must not block the drain of a node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def stateful_set(start: Start) -> Document:
    """Return the StatefulSet with one replica: it keeps the driver alive and never runs a second pod."""
    name = kubernetes_name(start.pipeline.name)
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**start.metadata(name), "annotations": start.record.annotations()},
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": _selector(start)},
            # With OrderedReady, a pod that never gets ready would block its own replacement
            # (kubernetes/kubernetes#67250). With one pod there is no other difference.
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": KEPT_TEMPLATES,
            "template": pod_template(start, "Always"),
        },
    }


def job(start: Start) -> Document:
    """Return the Job of one start of a bounded run: suspended at first, then exactly one pod."""
    deadline = start.run.deadline
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **start.metadata(start.record.workload_name(start.pipeline.name)),
            "annotations": start.record.annotations(),
        },
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            **({} if deadline is None else {"activeDeadlineSeconds": int(deadline.total_seconds())}),
            "completions": 1,
            "parallelism": 1,
            # Never create a pod while another one is terminating.
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": pod_template(start, "Never"),
        },
    }


def _selector(start: Start) -> dict[str, str]:
    # Exclude the executors' pods, which have the other labels as well.
    return {**{name: start.labels[name] for name in _SELECTING}, pod.COMPONENT_LABEL: "driver"}


def _resolved(start: Start) -> dict[str, Any]:
    """Return the full decision, for an operator who inspects the cluster."""
    environment = start.pipeline.environment
    return {
        "pipeline": describe(start.pipeline),
        "size": start.pipeline.size.model_dump(mode="json", exclude_none=True),
        "environment": {"name": environment.name, "root": environment.layout.root},
        "definition_digest": start.pipeline.definition_digest,
        "image": pod.kubernetes_of(environment).image,
        "slot": start.labels[SLOT_LABEL],
    }
