"""What a driver's pod tells: whether its driver lives, since when, and a person's words for it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemill.control.kubernetes.api import Document
from tidemill.control.kubernetes.slot_record import SlotRecord, record_of
from tidemill.spec.pod import DRIVER_CONTAINER

# Reasons for which a container waits that are no news to anybody.
_ORDINARY = frozenset({"ContainerCreating", "PodInitializing"})

# Longest reason of a pod's trouble that is shown, in characters.
LONGEST_WORDS = 200

# The mark of a pod whose Job has made it.
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"


@dataclass(frozen=True)
class PodFacts:
    """One pod of a driver.

    Args:
        name: Its name.
        uid: Tells it from another one of its name.
        record: The start that it belongs to.
        job: Its Job; empty for a stream's.
        has_ended: Whether it runs nothing any more, and never will.
        is_crash_looping: Whether its driver has ended, and the kubelet waits before it starts it again.
        leaves_at: When it should be gone, its grace period over; None if it was not told to go.
        started_at: When its container was started last, to the second; None before the first time.
        waits_since: Since when its container is to be started and is not; None if it is, or if it crashed and
            the kubelet waits on purpose.
        termination: How its container ended last, such as `OOMKilled, exit 137`.
        exit_code: The code of that end.
        words: For a person: what keeps it from running; empty if it runs.
        restarts: How often the kubelet has started its container again.
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
        """Whether it was told to go."""
        return self.leaves_at is not None

    @property
    def process(self) -> str:
        """Where the driver runs, for a person."""
        restarts = "" if self.restarts == 0 else f"{self.restarts} restart{'s' * (self.restarts > 1)}"
        return ", ".join(part for part in (f"pod {self.name}", restarts, self.words) if part)


def pod_facts(pod: Document) -> PodFacts:
    """Read a pod."""
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
    """Someone else's words on one line."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_WORDS else f"{text[:LONGEST_WORDS]}…"


def _driver_container(status: dict[str, Any]) -> dict[str, Any]:
    states = status.get("containerStatuses") or []
    return next((state for state in states if state["name"] == DRIVER_CONTAINER), {})


def _termination(container: dict[str, Any]) -> dict[str, Any]:
    """The end of the container's newest life, if that is over."""
    now, before = container.get("state") or {}, container.get("lastState") or {}
    if "running" in now:
        return {}
    return now.get("terminated") or before.get("terminated") or {}


def _started_at(container: dict[str, Any]) -> datetime | None:
    """The start of the container's newest life, over or not."""
    now, before = container.get("state") or {}, container.get("lastState") or {}
    life = now.get("running") or now.get("terminated") or before.get("terminated") or {}
    return _moment(life.get("startedAt"))


def _waits_since(metadata: dict[str, Any], container: dict[str, Any]) -> datetime | None:
    """The end of the container's former life, or the pod's making before the first."""
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
