"""Watches the driver containers of one pipeline without a gap, while a test disturbs it.

Two containers must never run at once. Their times are the kubelet's: each status of a pod, including the last
one before it is deleted, has the start and end times of its containers. A force-deleted pod disappears before
its container does, and its container's end time is unknown. For such pods only the order of commits is a
proof (`assert_exact`).
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from typing import Any

from tests.support.cluster import Cluster, Document, uid_of
from tidemill.spec.pod import DRIVER_CONTAINER


@dataclass(frozen=True)
class Life:
    """One life of a driver's container.

    Args:
        container: Id of the container.
        pod: Uid of its pod.
        began: Start time, to the second.
        ended: End time; None if it has not ended or was not seen.
        cut_short: True if its pod was deleted without waiting for its end.
    """

    container: str
    pod: str
    began: datetime
    ended: datetime | None = None
    cut_short: bool = False


def lives_in(pod: Document) -> Iterator[Life]:
    """Yield the lives of the driver's containers in a pod's status: the current and the previous one."""
    for status in pod["status"].get("containerStatuses", []):
        if status["name"] == DRIVER_CONTAINER:
            for state in (status.get("lastState", {}), status.get("state", {})):
                yield from _lives(str(uid_of(pod)), status, state)


def _lives(pod: str, status: Mapping[str, Any], state: Mapping[str, Any]) -> Iterator[Life]:
    ended, running = state.get("terminated"), state.get("running")
    if ended is not None and ended.get("startedAt"):
        moments = (datetime.fromisoformat(ended[key]) for key in ("startedAt", "finishedAt"))
        yield Life(ended.get("containerID") or status["containerID"], pod, *moments)
    elif running is not None:
        yield Life(status["containerID"], pod, datetime.fromisoformat(running["startedAt"]))


def at_once(lives: Iterable[Life]) -> list[tuple[Life, Life]]:
    """Pairs of containers that were at work at the same moment.

    Moments are whole seconds, so one may begin in the second in which the other has ended.
    """
    known = sorted((life for life in lives if not life.cut_short), key=lambda life: life.began)
    return [(one, next_one) for one, next_one in combinations(known, 2) if _outlives(one, next_one)]


def _outlives(one: Life, next_one: Life) -> bool:
    return one.ended is None or one.ended > next_one.began


class PodWatch:
    """Container lives that a watch has seen.

    Args:
        process: `kubectl get pods --watch`.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lives: dict[str, Life] = {}
        self.two_at_once = threading.Event()
        self._process = process
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    @property
    def pods(self) -> set[str]:
        """Uids of all pods whose container began."""
        return {life.pod for life in self.lives.values()}

    def is_watching(self) -> bool:
        """Return True if the watch has seen everything until now."""
        return self._process.poll() is None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def take(self, kind: str, pod: Document) -> None:
        """Handle one event of the watch."""
        for life in lives_in(pod):
            self.lives[life.container] = life
        if kind == "DELETED":
            self._leave_behind(str(uid_of(pod)))
        if at_once(self.lives.values()):
            self.two_at_once.set()

    def _leave_behind(self, pod: str) -> None:
        """Record containers that had not ended when their pod was deleted."""
        for life in list(self.lives.values()):
            if life.pod == pod and life.ended is None:
                self.lives[life.container] = replace(life, cut_short=True)

    def _read(self) -> None:
        text = ""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text += line
            # An event takes one line or many: kubectl's versions differ.
            try:
                event = json.loads(text)
            except ValueError:
                continue
            text = ""
            self.take(event["type"], event["object"])


@contextmanager
def watching(cluster: Cluster, selector: str) -> Iterator[PodWatch]:
    """Watch pods during a `with` block."""
    command = ["kubectl", "--namespace", cluster.namespace, "get", "pods", f"--selector={selector}"]
    process = subprocess.Popen(
        [*command, "--watch", "--output-watch-events", "--output=json"], stdout=subprocess.PIPE, text=True
    )
    watch = PodWatch(process)
    try:
        yield watch
    finally:
        watch.end()
