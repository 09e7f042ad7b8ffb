"""Documents of a slot's objects, as an API server returns them at one moment, `NOW`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.api_server import container
from tidemill.control.kubernetes.api import Document
from tidemill.control.kubernetes.observed import Observed
from tidemill.control.kubernetes.slot_record import START_GRACE, SlotRecord

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
CLAIMED_AT = NOW - timedelta(hours=1)
SINCE = NOW - timedelta(minutes=10)


def record(run_id: str = "run-1", mode: Any = "stream", **facts: Any) -> SlotRecord:
    return SlotRecord(run_id, mode, "d1", facts.pop("at", CLAIMED_AT), **facts)


JUST_NOW = NOW - timedelta(seconds=1)
LONG_AGO = NOW - START_GRACE - timedelta(seconds=1)


def claim(run_id: str = "run-1", mode: Any = "stream", **facts: Any) -> Document:
    annotations = record(run_id, mode, **facts).annotations()
    return {"metadata": {"name": "tidemill-orders", "annotations": annotations}}


def stateful_set(replicas: int = 1, run_id: str = "run-1", **facts: Any) -> Document:
    return {**claim(run_id, **facts), "spec": {"replicas": replicas}}


def job(run_id: str = "run-1", mode: Any = "incremental", **status: Any) -> Document:
    document = claim(run_id, mode)
    metadata = {**document["metadata"], "name": "tidemill-orders-1f"}
    return {**document, "metadata": metadata, "spec": {"suspend": False}, "status": status}


def suspended_job(**facts: Any) -> Document:
    return {**claim(mode="incremental", **facts), "spec": {"suspend": True}}


def pod(status: Document, run_id: str = "run-1", **facts: Any) -> Document:
    times = {
        field: f"{facts.pop(told):%Y-%m-%dT%H:%M:%SZ}"
        for told, field in (("leaves_at", "deletionTimestamp"), ("made_at", "creationTimestamp"))
        if told in facts
    }
    annotations = record(run_id, facts.pop("mode", "stream"), **facts).annotations()
    metadata = {"name": "tidemill-orders-0", "uid": "uid-1", "annotations": annotations, **times}
    return {"metadata": metadata, "status": status}


def job_pod(status: Document, run_id: str = "run-1", **facts: Any) -> Document:
    document = pod(status, run_id, mode="incremental", **facts)
    labels = {"batch.kubernetes.io/job-name": "tidemill-orders-1f"}
    return {
        **document,
        "metadata": {**document["metadata"], "name": "tidemill-orders-1f-x", "labels": labels},
    }


def observed(**documents: Any) -> Observed:
    return Observed("orders", "plant", **documents)


WAITS = {"phase": "Pending", "containerStatuses": [container({"waiting": {"reason": "ContainerCreating"}})]}
NO_IMAGE = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "tidemill/spark:9"'}
DONE = [{"type": "Complete", "status": "True"}]
UNSCHEDULED = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
    ],
}
