"""Readable log of a driver from the cluster: events, the end of its container, and log lines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tidemill.control.driver_log import (
    LINES_AT_ONCE,
    LogNews,
    LogPosition,
    newest_of,
    position_in,
    shown_lines,
)
from tidemill.control.kubernetes.api import Document, KubernetesApi
from tidemill.control.kubernetes.observed import Observed
from tidemill.control.kubernetes.pod_facts import PodFacts, pod_facts
from tidemill.control.kubernetes.slot_view import warnings_about
from tidemill.control.runtime import StartedDriver
from tidemill.spec.pod import DRIVER_CONTAINER

# Events shown for each object; Kubernetes keeps them for an hour and merges repeated ones.
SHOWN_EVENTS = 10

# Events remembered as shown: a few of each object, and of each restart within an hour.
KNOWN_EVENTS = 100

Stamped = tuple[datetime, str]


def read_pod_log(
    api: KubernetesApi, observed: Observed, driver: StartedDriver, since: LogPosition | None
) -> LogNews:
    """Return new warning events about workload and pods, then new lines of the driver's log."""
    position = position_in(driver, since)
    pods = [facts for facts in map(pod_facts, observed.pods) if _is_of(facts, driver)]
    events = [line for line in _events(api, observed, pods) if line not in position.told]
    stamped = sorted(
        (line for facts in pods for line in _log(api, facts, position)), key=lambda line: line[0]
    )
    fresh = _after(position, stamped)
    lines = newest_of(driver, [text for _, text in fresh], is_cut=_is_cut(position, stamped))
    told = (*position.told, *events)[-KNOWN_EVENTS:]
    return LogNews([*events, *lines], _at_end(position, stamped).model_copy(update={"told": told}))


def _events(api: KubernetesApi, observed: Observed, pods: list[PodFacts]) -> list[str]:
    workloads = [*observed.jobs, *([observed.stateful_set] if observed.stateful_set else [])]
    names = [*(str(each["metadata"]["name"]) for each in workloads), *(facts.name for facts in pods)]
    lines = [_line(name, event) for name in names for event in _telling(api, name)[-SHOWN_EVENTS:]]
    ends = [
        f"{facts.name}: its container ended: {facts.termination}"
        + (f", after {facts.restarts} restart{'s' * (facts.restarts > 1)}" if facts.restarts else "")
        for facts in pods
        if facts.termination
    ]
    return shown_lines([*lines, *ends])


def _telling(api: KubernetesApi, name: str) -> list[Document]:
    """Return the warnings, without those that every driver has before its first batch."""
    found = warnings_about(api, name)
    return [event for event in found if not str(event.get("message", "")).startswith("Readiness probe")]


def _log(api: KubernetesApi, facts: PodFacts, position: LogPosition) -> Iterator[Stamped]:
    """Yield lines with their timestamps, from the second of the newest known line on."""
    previous = facts.is_crash_looping
    text = api.log(facts.name, DRIVER_CONTAINER, LINES_AT_ONCE, previous=previous, since=position.newest_at)
    for line in text.split("\n"):
        stamp, _, words = line.partition(" ")
        try:
            moment = datetime.fromisoformat(stamp)
        except ValueError:
            # The end of the text, or a message of the kubelet itself.
            continue
        yield moment, words


def _after(position: LogPosition, stamped: list[Stamped]) -> list[Stamped]:
    """Return the new lines; the kubelet compares whole seconds, and lines may share a timestamp."""
    if position.newest_at is None:
        return stamped
    of_moment = [line for line in stamped if line[0] == position.newest_at]
    return [*of_moment[position.newest_count :], *(line for line in stamped if line[0] > position.newest_at)]


def _is_cut(position: LogPosition, stamped: list[Stamped]) -> bool:
    """Return True if there may be lines between the last read and the oldest of these."""
    if len(stamped) < LINES_AT_ONCE:
        return False
    return position.newest_at is None or stamped[0][0] > position.newest_at


def _at_end(position: LogPosition, stamped: list[Stamped]) -> LogPosition:
    if not stamped:
        return position
    newest = stamped[-1][0]
    count = sum(1 for moment, _ in stamped if moment == newest)
    if newest == position.newest_at:
        count = max(count, position.newest_count)
    return position.model_copy(update={"newest_at": newest, "newest_count": count})


def _is_of(facts: PodFacts, driver: StartedDriver) -> bool:
    return facts.record is not None and facts.record.run_id == driver.run_id


def _line(name: str, event: Document) -> str:
    message = " ".join(str(event.get("message", "")).split())
    return f"{name}: {event.get('reason', '')}: {message}"
