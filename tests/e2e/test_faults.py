"""Rows 8, 9 and 27 of the faults: what happens to pods, and that no event is lost or duplicated by it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.api_server_away import api_server_away
from tests.support.cluster import Document, uid_of, until
from tests.support.platform import WINDOWS, Platform
from tests.support.pod_watch import lives_in
from tidemill.names import kubernetes_name

POD = f"{kubernetes_name(WINDOWS)}-0"
FURTHER_POD = f"{kubernetes_name(WINDOWS)}-1"
WORKLOAD = f"statefulset/{kubernetes_name(WINDOWS)}"

# Seconds for Kubernetes to see a change of pods.
SEEN_SECONDS = 150

# Seconds for a driver to drain: its batch, and Spark's end. The grace period is 120.
DRAIN_SECONDS = 200

# Kills of a driver until one comes in the middle of a batch, which takes a second or two of every five.
MOST_KILLS = 6

# Ends the driver's process, which is not the container's first one: that is tini.
KILL = """
import os, pathlib, signal
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    if b"tidemill.engine.driver" in path.read_bytes().split(b"\\0") and path.parent.name != "1":
        os.kill(int(path.parent.name), signal.SIGKILL)
"""

# Seconds that the API server is away: faults.md, row 27.
AWAY_SECONDS = 120


def gone(platform: Platform, pod: Document) -> bool:
    """Return True if this pod no longer exists."""
    return uid_of(platform.driver(WINDOWS)) != uid_of(pod)


def comes_back(platform: Platform, pod: Document) -> None:
    """Wait until another pod has taken a pod's place, and has committed a batch."""
    until(lambda: gone(platform, pod), "the old pod is gone", DRAIN_SECONDS)
    platform.until_healthy(WINDOWS)
    platform.until_batch(WINDOWS)


def test_a_stream_goes_on_when_its_executors_are_deleted(platform: Platform) -> None:
    driver = platform.until_healthy(WINDOWS)
    with platform.events_flow():
        executors = until(lambda: platform.executors(WINDOWS), "executors run", SEEN_SECONDS)
        names = [pod["metadata"]["name"] for pod in executors]
        platform.streams("delete", "pod", "--grace-period=0", "--force", *names)
        platform.until_batch(WINDOWS)
        others = until(lambda: platform.executors(WINDOWS), "other executors run", SEEN_SECONDS)
    assert uid_of(platform.driver(WINDOWS)) == uid_of(driver)
    assert not {uid_of(pod) for pod in executors} & {uid_of(pod) for pod in others}
    platform.assert_exact()


@pytest.mark.core
def test_a_deleted_driver_drains_within_its_grace_period_and_leaves_a_clean_receipt(
    platform: Platform,
) -> None:
    driver = platform.until_healthy(WINDOWS)
    with platform.events_flow():
        platform.until_batch(WINDOWS)
        platform.streams.delete("pod", POD)
        until(lambda: gone(platform, driver), "it drains", DRAIN_SECONDS)
        receipt: dict[str, Any] = platform.newest_receipt(WINDOWS) or {}
        assert (receipt["result"], receipt["exit_code"]) == ("clean", 0)
        assert receipt["stopped_at"] > driver["status"]["startTime"]
        comes_back(platform, driver)
    platform.assert_exact()


def test_scaled_to_nothing_it_drains_and_scaled_to_two_only_the_first_pod_goes_on(
    platform: Platform,
) -> None:
    driver = platform.until_healthy(WINDOWS)
    receipts = len(platform.agent.ask("receipts", pipeline=WINDOWS))
    epochs = platform.epochs(WINDOWS)
    with platform.events_flow():
        platform.until_batch(WINDOWS)
        platform.streams("scale", WORKLOAD, "--replicas=0")
        until(lambda: platform.driver(WINDOWS) is None, "it drains", DRAIN_SECONDS)
        left = platform.agent.ask("receipts", pipeline=WINDOWS)[receipts:]
        assert [receipt["result"] for receipt in left] == ["clean"]
        platform.streams("scale", WORKLOAD, "--replicas=2")
        try:
            until(
                lambda: "TIDE-K8S-024" in platform.streams.logs(FURTHER_POD),
                "the further pod refuses",
                SEEN_SECONDS,
            )
            comes_back(platform, driver)
        finally:
            platform.streams("scale", WORKLOAD, "--replicas=1")
    assert platform.epochs(WINDOWS) == epochs + 1
    platform.assert_exact()


def kill_in_container(platform: Platform) -> None:
    """Send SIGKILL to the driver's process. The kubelet restarts its container in the same pod."""
    platform.streams("exec", POD, "--container=driver", "--", "python", "-c", KILL)


KILLS: dict[str, Callable[[Platform], None]] = {
    "in its container": kill_in_container,
    "with its pod": lambda platform: platform.streams.delete("pod", POD, "--grace-period=1"),
    "with its pod, by force": lambda platform: platform.streams.delete(
        "pod", POD, "--grace-period=0", "--force"
    ),
}


def kill_in_a_batch(platform: Platform, kill: Callable[[Platform], None]) -> int:
    """Kill a driver in a batch that it has begun and does not finish; the batch's number."""
    for _ in range(MOST_KILLS):
        platform.until_healthy(WINDOWS)
        before = life_of(platform)
        begun = until(lambda: in_a_batch(platform), "a batch has begun", SEEN_SECONDS)
        kill(platform)
        until(lambda before=before: life_of(platform) != before, "the driver is gone", DRAIN_SECONDS)
        # The next one has not come that far yet.
        if platform.committed(WINDOWS) < begun:
            return begun
        platform.until_batch(WINDOWS)
    raise AssertionError(f"{MOST_KILLS} kills, and each came after its batch")


def in_a_batch(platform: Platform) -> int | None:
    begun = int(platform.agent.ask("begun", pipeline=WINDOWS))
    return begun if begun > platform.committed(WINDOWS) else None


def life_of(platform: Platform) -> set[str]:
    """Return the container of the running driver; empty if there is none."""
    pod = platform.driver(WINDOWS)
    return set() if pod is None else {life.container for life in lives_in(pod) if life.ended is None}


@pytest.mark.parametrize("how", [pytest.param("in its container", marks=pytest.mark.core), *list(KILLS)[1:]])
def test_a_batch_whose_driver_is_killed_in_it_is_repeated_by_the_next_one(
    platform: Platform, how: str
) -> None:
    epochs = platform.epochs(WINDOWS)
    with platform.events_flow():
        batch = kill_in_a_batch(platform, KILLS[how])
        platform.until_batch(WINDOWS, after=batch - 1)
        platform.until_healthy(WINDOWS)
    assert platform.epochs(WINDOWS) > epochs
    platform.assert_exact()


def test_a_wrong_image_is_named_and_the_right_one_goes_on(platform: Platform) -> None:
    driver = platform.until_healthy(WINDOWS)
    right = platform.release.image("spark")
    with platform.events_flow():
        platform.streams("set", "image", WORKLOAD, f"driver={right}-nobody-made-this")
        until(lambda: gone(platform, driver), "the old pod is gone", DRAIN_SECONDS)
        assert re.search("ImagePullBackOff|ErrImagePull", platform.until_reconciled())
        platform.streams("set", "image", WORKLOAD, f"driver={right}")
        # A StatefulSet waits for ever for a pod of an older template that never became ready.
        platform.streams.delete("pod", POD)
        comes_back(platform, driver)
    platform.assert_exact()


def test_a_batch_that_a_full_quota_stops_is_cut_off_and_repeated_once_the_quota_is_freed(
    platform: Platform,
) -> None:
    driver = platform.until_healthy(WINDOWS)
    with platform.events_flow():
        platform.until_batch(WINDOWS)
        platform.streams("create", "quota", "full", "--hard=pods=0")
        try:
            executors = until(lambda: platform.executors(WINDOWS), "executors run", SEEN_SECONDS)
            names = [pod["metadata"]["name"] for pod in executors]
            platform.streams("delete", "pod", "--grace-period=0", "--force", *names)
            waiting = platform.until_stuck(WINDOWS)
            platform.streams.delete("pod", POD)
            until(lambda: platform.driver(WINDOWS) is None, "the old pod is gone", DRAIN_SECONDS)
            receipt: dict[str, Any] = platform.newest_receipt(WINDOWS) or {}
            assert (receipt["result"], receipt["unfinished_batch"]) == ("forced", waiting)
            assert "exceeded quota" in platform.until_reconciled()
        finally:
            platform.streams.delete("quota", "full")
        comes_back(platform, driver)
    platform.assert_exact()


def test_the_api_server_may_be_away_for_two_minutes(platform: Platform) -> None:
    driver = platform.until_healthy(WINDOWS)
    restarts = [status["restartCount"] for status in driver["status"]["containerStatuses"]]
    with platform.events_flow():
        before = platform.until_batch(WINDOWS)
        with api_server_away(AWAY_SECONDS, platform.release.image("airflow")):
            pass
        # It was at work all the time, not only before and after.
        assert platform.committed(WINDOWS) > before + 3
        platform.until_batch(WINDOWS)
    after = platform.until_healthy(WINDOWS)
    assert uid_of(after) == uid_of(driver)
    assert [status["restartCount"] for status in after["status"]["containerStatuses"]] == restarts
    platform.assert_exact()
