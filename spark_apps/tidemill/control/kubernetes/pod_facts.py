"""State of a driver's pod: whether the driver lives, since when, and a readable description. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemill.control.kubernetes.api import Document
from tidemill.control.kubernetes.slot_record import SlotRecord, record_of
from tidemill.spec.pod import DRIVER_CONTAINER

# Normal reasons for a waiting container.
_ORDINARY = frozenset({"ContainerCreating", "PodInitializing"})

# Maximum characters shown of the reason of a pod's trouble.
LONGEST_WORDS = 200

# Label of a pod that was created by a Job.
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"


@dataclass(frozen=True)
class PodFacts:
    """One pod of a driver.

    Args:
        name: Its name.
        uid: Distinguishes it from other pods of its name.
        record: The start that it belongs to.
        job: Its Job; empty for a stream's pod.
        has_ended: True if it runs nothing and never will.
        is_crash_looping: True if its driver has ended, and the kubelet waits before it restarts it.
        leaves_at: End of its grace period; None if it is not terminating.
        started_at: Last start of its container, in whole seconds; None before the first start.
        waits_since: Time since when its container should start but has not; None if it has started, or if it
            crashed and the kubelet delays the restart.
        termination: Last end of its container, such as `OOMKilled, exit 137`.
        exit_code: Exit code of that end.
        words: Readable reason why it does not run; empty if it runs.
        restarts: Number of restarts of its container by the kubelet.
    """

    name: str
    uid: str
    record: SlotRecord | None
    job: str
    has_ended: bool
    is_crash_looping: bool
    leaves_at: datetime | None
    started_at: datetime | None
    waits_since: datetime | None
    termination: str
    exit_code: int | None
    words: str
    restarts: int

    @property
    def is_leaving(self) -> bool:
        """Return True if it is terminating."""
        return self.leaves_at is not None

    @property
    def process(self) -> str:
        """Return the driver's location in readable form."""
        restarts = "" if self.restarts == 0 else f"{self.restarts} restart{'s' * (self.restarts > 1)}"
        return ", ".join(part for part in (f"pod {self.name}", restarts, self.words) if part)


def pod_facts(pod: Document) -> PodFacts:
    """Return the facts of a pod document."""
    metadata, status = pod["metadata"], pod.get("status", {})
    container = _driver_container(status)
    leaves_at = _moment(metadata.get("deletionTimestamp"))
    waiting = container.get("state", {}).get("waiting") or {}
    is_crash_looping = waiting.get("reason") == "CrashLoopBackOff" and leaves_at is None
    ended = _termination(container)
    return PodFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        record=record_of(pod),
        job=(metadata.get("labels") or {}).get(JOB_NAME_LABEL, ""),
        has_ended=status.get("phase") in ("Succeeded", "Failed"),
        is_crash_looping=is_crash_looping,
        leaves_at=leaves_at,
        started_at=_started_at(container),
        waits_since=None if is_crash_looping else _waits_since(metadata, container),
        termination="" if not ended else f"{ended.get('reason', 'ended')}, exit {ended.get('exitCode')}",
        exit_code=ended.get("exitCode"),
        words=_words(status, waiting) if leaves_at is None else "Terminating",
        restarts=container.get("restartCount", 0),
    )


def shortened(text: str) -> str:
    """Return external text on one line, shortened."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_WORDS else f"{text[:LONGEST_WORDS]}…"


def _driver_container(status: dict[str, Any]) -> dict[str, Any]:
    states = status.get("containerStatuses") or []
    return next((state for state in states if state["name"] == DRIVER_CONTAINER), {})


def _termination(container: dict[str, Any]) -> dict[str, Any]:
    """Return the end of the container's newest life, if that has ended."""
    now, before = container.get("state") or {}, container.get("lastState") or {}
    if "running" in now:
        return {}
    return now.get("terminated") or before.get("terminated") or {}


def _started_at(container: dict[str, Any]) -> datetime | None:
    """Return the start of the container's newest life, even if that has ended."""
    now, before = container.get("state") or {}, container.get("lastState") or {}
    life = now.get("running") or now.get("terminated") or before.get("terminated") or {}
    return _moment(life.get("startedAt"))


def _waits_since(metadata: dict[str, Any], container: dict[str, Any]) -> datetime | None:
    """Return the end of the container's former life, or the creation of the pod before the first."""
    state, before = container.get("state") or {}, container.get("lastState") or {}
    if "running" in state or "terminated" in state:
        return None
    former = before.get("terminated") or {}
    return _moment(former.get("finishedAt") if former else metadata.get("creationTimestamp"))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _words(status: dict[str, Any], waiting: dict[str, Any]) -> str:
    phase = status.get("phase", "Pending")
    if waiting.get("reason") and waiting["reason"] not in _ORDINARY:
        return f"{phase}: {shortened(waiting['reason'] + ' ' + waiting.get('message', ''))}"
    if phase == "Running":
        return ""
    conditions: list[dict[str, str]] = status.get("conditions") or []
    unscheduled: dict[str, str] = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    if unscheduled.get("status") == "False":
        return f"{phase}: {shortened(unscheduled.get('reason', '') + ' ' + unscheduled.get('message', ''))}"
    return f"{phase}: {status['reason']}" if status.get("reason") else phase
