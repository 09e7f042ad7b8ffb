"""The reason why a driver neither works nor ends, for the user; empty while it may still recover."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.api_server import container, crash_looping, running
from tests.support.slot_documents import (
    CLAIMED_AT,
    DONE,
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
)
from tidemill.control.kubernetes.stuck import why_stuck

NO_QUOTA = "FailedCreate: exceeded quota: plant"


def minutes_ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def no_secret(ended_at: datetime) -> dict[str, Any]:
    """Return status of a pod whose driver ran and crashed, and whose Secret is gone since."""
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": "no secret"}}
    ended = {"startedAt": f"{SINCE:%Y-%m-%dT%H:%M:%SZ}", "finishedAt": f"{ended_at:%Y-%m-%dT%H:%M:%SZ}"}
    return {"phase": "Running", "containerStatuses": [container(waiting, last={"terminated": ended})]}


@pytest.mark.parametrize(
    "seen",
    [
        {"pods": (pod(running(SINCE), made_at=minutes_ago(60)),)},
        {"pods": (pod(crash_looping(SINCE), made_at=minutes_ago(60)),)},
        {"pods": (pod(running(SINCE), leaves_at=minutes_ago(-2)),)},
        {"pods": (pod(running(SINCE), leaves_at=minutes_ago(1)),)},
        {"pods": (pod(UNSCHEDULED, made_at=minutes_ago(4)),)},
        {"pods": (pod(no_secret(minutes_ago(4)), made_at=minutes_ago(60)),)},
        # About to be replaced.
        {"pods": (pod({"phase": "Failed", "reason": "Evicted"}, made_at=minutes_ago(60)),)},
        # The pod may have been deleted just now.
        {"stateful_set": stateful_set()},
        {"jobs": (job(conditions=DONE),)},
    ],
)
def test_a_driver_that_works_or_still_may_is_not_stuck(seen: dict[str, Any]) -> None:
    assert why_stuck(observed(config_map=claim(), **seen), CLAIMED_AT, "", NOW) == ""


@pytest.mark.parametrize(
    ("document", "trouble", "words"),
    [
        (
            pod(running(SINCE), leaves_at=minutes_ago(2)),
            "",
            "pod tidemill-orders-0 should be gone since 2026-01-31 11:58 UTC: its node may be gone",
        ),
        (
            job_pod(running(SINCE), leaves_at=minutes_ago(2)),
            "",
            "pod tidemill-orders-1f-x should be gone since 2026-01-31 11:58 UTC: its node may be gone",
        ),
        (
            pod(UNSCHEDULED, made_at=minutes_ago(6)),
            "",
            "pod tidemill-orders-0 has not started within 5 minutes: Pending: Unschedulable 0/3 nodes fit",
        ),
        (
            pod(WAITS, made_at=minutes_ago(6)),
            "FailedMount: no secret",
            "pod tidemill-orders-0 has not started within 5 minutes: Pending, FailedMount: no secret",
        ),
        (
            pod(no_secret(minutes_ago(6)), made_at=minutes_ago(60)),
            "",
            "pod tidemill-orders-0 has not started within 5 minutes: "
            "Running: CreateContainerConfigError no secret",
        ),
    ],
)
def test_why_a_pod_is_stuck(document: dict[str, Any], trouble: str, words: str) -> None:
    assert why_stuck(observed(config_map=claim(), pods=(document,)), CLAIMED_AT, trouble, NOW) == words


@pytest.mark.parametrize("workload", [{"stateful_set": stateful_set()}, {"jobs": (job(),)}])
@pytest.mark.parametrize(
    ("claimed_at", "words"),
    [(minutes_ago(4), ""), (minutes_ago(6), f"no pod can be made: {NO_QUOTA}")],
)
def test_why_no_pod_is_there(workload: dict[str, Any], claimed_at: datetime, words: str) -> None:
    assert why_stuck(observed(config_map=claim(), **workload), claimed_at, NO_QUOTA, NOW) == words
