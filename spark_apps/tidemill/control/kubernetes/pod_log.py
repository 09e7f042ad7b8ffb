"""What the cluster tells of a driver, for a person: events, how its container ended, and log lines."""

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

# Events shown of each object: Kubernetes keeps them for an hour and counts repeated ones in one.
SHOWN_EVENTS = 10

# Events that are known to have been told: a few of each object, and of each restart in an hour.
KNOWN_EVENTS = 100

Stamped = tuple[datetime, str]


def read_pod_log(
    api: KubernetesApi, observed: Observed, driver: StartedDriver, since: LogPosition | None
) -> LogNews:
    """Warning events about workload and pods, then the driver's log lines; each that is new since then."""
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
    """Warnings, without those that every driver has before its first batch."""
    found = warnings_about(api, name)
    return [event for event in found if not str(event.get("message", "")).startswith("Readiness probe")]


def _log(api: KubernetesApi, facts: PodFacts, position: LogPosition) -> Iterator[Stamped]:
    """Lines with their moments, from the second on in which the newest one was written that is known."""
    previous = facts.is_crash_looping
    text = api.log(facts.name, DRIVER_CONTAINER, LINES_AT_ONCE, previous=previous, since=position.newest_at)
    for line in text.split("\n"):
        stamp, _, words = line.partition(" ")
        try:
            moment = datetime.fromisoformat(stamp)
        except ValueError:
            # The end of the text, or what the kubelet itself has to say.
            continue
        yield moment, words


def _after(position: LogPosition, stamped: list[Stamped]) -> list[Stamped]:
    """What is new: the kubelet knows seconds, and several lines may have one moment."""
    if position.newest_at is None:
        return stamped
    of_moment = [line for line in stamped if line[0] == position.newest_at]
    return [*of_moment[position.newest_count :], *(line for line in stamped if line[0] > position.newest_at)]


def _is_cut(position: LogPosition, stamped: list[Stamped]) -> bool:
    """Whether there may be lines between the last look and the oldest of these."""
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
