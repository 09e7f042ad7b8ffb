"""What the cluster tells of a driver, for a person who asks why it failed."""

from __future__ import annotations

from tidemill.control.kubernetes.api import Document, KubernetesApi
from tidemill.control.kubernetes.observed import Observed
from tidemill.control.kubernetes.pod_facts import PodFacts, pod_facts
from tidemill.control.kubernetes.slot_view import warnings_about
from tidemill.control.log_tail import SHOWN_LINES
from tidemill.control.runtime import StartedDriver
from tidemill.spec.pod import DRIVER_CONTAINER

# Events shown of each object: Kubernetes keeps them for an hour and counts repeated ones in one.
SHOWN_EVENTS = 10


def pod_traces(api: KubernetesApi, observed: Observed, driver: StartedDriver) -> list[str]:
    """Warning events about workload and pods, then the newest lines of the driver's log."""
    pods = [facts for facts in map(pod_facts, observed.pods) if _is_of(facts, driver)]
    workloads = [*observed.jobs, *([observed.stateful_set] if observed.stateful_set else [])]
    names = [*(str(each["metadata"]["name"]) for each in workloads), *(facts.name for facts in pods)]
    lines = [_line(name, event) for name in names for event in _telling(api, name)[-SHOWN_EVENTS:]]
    for facts in pods:
        if facts.termination:
            lines.append(f"{facts.name}: its container ended: {facts.termination}")
        text = api.log(facts.name, DRIVER_CONTAINER, SHOWN_LINES, previous=facts.is_crash_looping)
        lines += text.splitlines()
    return lines or ["no pod of it is there any more"]


def _telling(api: KubernetesApi, name: str) -> list[Document]:
    """Warnings, without those that every driver has before its first batch."""
    found = warnings_about(api, name)
    return [event for event in found if not str(event.get("message", "")).startswith("Readiness probe")]


def _is_of(facts: PodFacts, driver: StartedDriver) -> bool:
    return facts.record is not None and facts.record.run_id == driver.run_id


def _line(name: str, event: Document) -> str:
    message = " ".join(str(event.get("message", "")).split())
    return f"{name}: {event.get('reason', '')}: {message}"
