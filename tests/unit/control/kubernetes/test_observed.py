"""State of a driver from Kubernetes documents: one table of the cases at one moment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.support.api_server import container, crash_looping, running
from tests.support.slot_documents import (
    CLAIMED_AT,
    DONE,
    JUST_NOW,
    LONG_AGO,
    NO_IMAGE,
    NOW,
    SINCE,
    UNSCHEDULED,
    WAITS,
    claim,
    job,
    job_pod,
    observed,
    pod,
    stateful_set,
    suspended_job,
)
from tidemill.control.kubernetes.api import Document
from tidemill.control.kubernetes.observed import newest_words, started_driver, troubled_object
from tidemill.control.kubernetes.pod_facts import LONGEST_WORDS


@pytest.mark.parametrize(
    ("seen", "alive"),
    [
        pytest.param({"config_map": claim(at=JUST_NOW)}, True, id="claimed just now"),
        pytest.param({"config_map": claim(at=LONG_AGO)}, False, id="claimed, and its starter died"),
        pytest.param(
            {"config_map": claim(at=JUST_NOW, drain_requested_at=NOW)}, False, id="claimed and called off"
        ),
        pytest.param({"config_map": claim(), "stateful_set": stateful_set()}, True, id="no pod made yet"),
        pytest.param({"config_map": claim(), "stateful_set": stateful_set(0)}, False, id="scaled to none"),
        pytest.param(
            {"config_map": claim(), "stateful_set": stateful_set(0), "pods": (pod(running(SINCE)),)},
            True,
            id="scaled to none, its pod still there",
        ),
        pytest.param(
            {
                "config_map": claim(),
                "stateful_set": stateful_set(0),
                "pods": (pod(running(SINCE), leaves_at=NOW),),
            },
            True,
            id="draining",
        ),
        pytest.param(
            {"config_map": claim(), "pods": (pod(running(SINCE)),)}, True, id="StatefulSet deleted, pod runs"
        ),
        pytest.param({"pods": (pod(running(SINCE)),)}, True, id="all but the pod deleted"),
        pytest.param(
            {"config_map": claim(), "stateful_set": stateful_set(), "pods": (pod(WAITS),)},
            True,
            id="being made",
        ),
        pytest.param(
            {"config_map": claim(), "stateful_set": stateful_set(), "pods": (pod({"phase": "Failed"}),)},
            True,
            id="evicted, and replaced soon",
        ),
        pytest.param(
            {"config_map": claim(), "stateful_set": stateful_set(), "pods": (pod(crash_looping(SINCE)),)},
            False,
            id="crash-looping",
        ),
        pytest.param(
            {
                "config_map": claim(),
                "stateful_set": stateful_set(),
                "pods": (pod(crash_looping(SINCE), leaves_at=NOW),),
            },
            True,
            id="crash-looping and told to go",
        ),
        pytest.param(
            {
                "config_map": claim("run-2", at=LONG_AGO),
                "stateful_set": stateful_set(1, "run-2", at=LONG_AGO),
                "pods": (pod(crash_looping(SINCE)),),
            },
            True,
            id="crash-looping, about to be replaced",
        ),
        pytest.param(
            {
                "config_map": claim("run-2", at=LONG_AGO),
                "stateful_set": stateful_set(),
                "pods": (pod(crash_looping(SINCE)),),
            },
            False,
            id="crash-looping, and the next starter died",
        ),
        pytest.param(
            {"config_map": claim(mode="incremental"), "jobs": (job(),)}, True, id="job without a pod"
        ),
        pytest.param(
            {
                "config_map": claim(mode="incremental"),
                "jobs": (job(conditions=DONE),),
                "pods": (job_pod({"phase": "Succeeded"}),),
            },
            False,
            id="job done",
        ),
        pytest.param(
            {"config_map": claim(mode="incremental"), "pods": (job_pod(running(SINCE)),)},
            True,
            id="job deleted, its pod draining",
        ),
        pytest.param({"config_map": claim(mode="incremental")}, False, id="job expired"),
        pytest.param(
            {"config_map": claim(mode="incremental"), "jobs": (suspended_job(),)},
            False,
            id="job made, and its starter died before it let it run",
        ),
        pytest.param(
            {"config_map": claim(mode="incremental", at=JUST_NOW), "jobs": (suspended_job(at=JUST_NOW),)},
            True,
            id="job made, not let run yet",
        ),
    ],
)
def test_whether_a_driver_lives(seen: dict[str, Any], alive: bool) -> None:
    driver = started_driver(observed(**seen), NOW)
    assert driver is not None
    assert driver.alive is alive


def test_nothing_tells_of_no_driver() -> None:
    assert started_driver(observed(), NOW) is None
    untouched = {"metadata": {"name": "tidemill-orders"}}
    assert started_driver(observed(config_map=untouched), NOW) is None


@pytest.mark.parametrize(
    ("seen", "run_id"),
    [
        ({"config_map": claim("run-2", at=JUST_NOW), "pods": (pod(running(SINCE), "run-1"),)}, "run-1"),
        (
            {
                "config_map": claim("run-2"),
                "stateful_set": stateful_set(1, "run-2"),
                "pods": (pod(crash_looping(SINCE), "run-1"),),
            },
            "run-2",
        ),
        (
            {
                "config_map": claim("run-2"),
                "stateful_set": stateful_set(1, "run-2"),
                "pods": (pod(running(SINCE), "run-1", leaves_at=NOW),),
            },
            "run-1",
        ),
        ({"config_map": claim("run-2", at=LONG_AGO), "stateful_set": stateful_set(0, "run-1")}, "run-2"),
    ],
    ids=["a pod that lives", "the pod that comes", "a pod that goes", "the newest claim"],
)
def test_whose_driver_it_is(seen: dict[str, Any], run_id: str) -> None:
    driver = started_driver(observed(**seen), NOW)
    assert driver is not None
    assert driver.run_id == run_id


@pytest.mark.parametrize(
    ("status", "started_at"),
    [(running(SINCE), SINCE), (crash_looping(SINCE), SINCE), (WAITS, CLAIMED_AT)],
    ids=["its container's", "its ended container's", "the claim's, before the first"],
)
def test_since_when_a_stream_runs(status: Document, started_at: datetime) -> None:
    seen = observed(config_map=claim(), stateful_set=stateful_set(), pods=(pod(status),))
    driver = started_driver(seen, NOW)
    assert driver is not None
    assert driver.started_at == started_at


def test_whoever_lives_in_a_slot_was_asked_to_stop_when_the_slot_was() -> None:
    asked = claim("run-2", at=LONG_AGO, drain_requested_at=NOW)
    driver = started_driver(observed(config_map=asked, stateful_set=stateful_set()), NOW)
    assert driver is not None
    assert (driver.run_id, driver.drain_requested_at) == ("run-1", NOW)


def test_a_bounded_run_was_started_when_it_was_claimed() -> None:
    seen = observed(config_map=claim(mode="incremental"), jobs=(job(),), pods=(job_pod(running(SINCE)),))
    driver = started_driver(seen, NOW)
    assert driver is not None
    assert (driver.started_at, driver.mode) == (CLAIMED_AT, "incremental")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (pod(running(SINCE)), "pod tidemill-orders-0"),
        (pod(running(SINCE, restarts=1)), "pod tidemill-orders-0, 1 restart"),
        (pod(running(SINCE), leaves_at=NOW), "pod tidemill-orders-0, Terminating"),
        (pod(WAITS), "pod tidemill-orders-0, Pending"),
        (pod(UNSCHEDULED), "pod tidemill-orders-0, Pending: Unschedulable 0/3 nodes fit"),
        (
            pod({"phase": "Pending", "containerStatuses": [container({"waiting": NO_IMAGE})]}),
            'pod tidemill-orders-0, Pending: ImagePullBackOff Back-off pulling image "tidemill/spark:9"',
        ),
    ],
)
def test_where_it_runs_is_told_in_words(document: Document, words: str) -> None:
    seen = observed(config_map=claim(), stateful_set=stateful_set(), pods=(document,))
    driver = started_driver(seen, NOW)
    assert driver is not None
    assert driver.process == words


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        ({"stateful_set": stateful_set(), "pods": (pod(running(SINCE)),)}, None),
        ({"stateful_set": stateful_set(), "pods": (pod(WAITS),)}, "tidemill-orders-0"),
        ({"stateful_set": stateful_set()}, "tidemill-orders"),
        ({"stateful_set": stateful_set(0)}, None),
        ({"jobs": (job(),)}, "tidemill-orders-1f"),
        ({"jobs": (job(conditions=DONE),)}, None),
    ],
)
def test_which_object_is_asked_for_its_troubles(seen: dict[str, Any], name: str | None) -> None:
    assert troubled_object(observed(**seen)) == name


def test_the_newest_event_is_told_on_one_line() -> None:
    events = [
        {"reason": "Old", "message": "x", "lastTimestamp": "2026-01-31T12:00:00Z"},
        {"reason": "New", "message": "a\nb" + "c" * 500, "eventTime": "2026-01-31T12:05:00Z"},
    ]
    words = newest_words(events)
    assert words.startswith("New: a bc")
    assert len(words) <= LONGEST_WORDS + 1
    assert newest_words([]) == ""
