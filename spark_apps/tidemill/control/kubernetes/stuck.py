"""Why a driver neither works nor ends, and will not without a person. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidemill.control.kubernetes.observed import Observed
from tidemill.control.kubernetes.pod_facts import PodFacts

# Longest from a pod's making, or from the claim where none is made, until its container starts: a node that
# an autoscaler adds takes three minutes, an image of 2 GB one. The same from one life to the next.
LONGEST_BEFORE_START = timedelta(minutes=5)

# Longest that a pod is there beyond its grace period: the kubelet kills and removes it in seconds, and the
# API server's clock, which said when, may differ from ours.
LONGEST_BEYOND_GRACE = timedelta(seconds=60)


def why_stuck(observed: Observed, claimed_at: datetime, trouble: str, now: datetime) -> str:
    """Words for a person; empty if the driver works, or still may.

    Args:
        observed: The slot of a driver that lives.
        claimed_at: When its start was decided.
        trouble: What the cluster says keeps it from its first start.
        now: The time.
    """
    pods = [facts for facts in (*observed.stream_pods, *observed.job_pods) if not facts.has_ended]
    if pods:
        return next((words for facts in pods if (words := _why_pod_is_stuck(facts, trouble, now))), "")
    # Without a trouble it may have been deleted a moment ago, and its successor is being made.
    if trouble and now - claimed_at > LONGEST_BEFORE_START:
        return f"no pod can be made: {trouble}"
    return ""


def _why_pod_is_stuck(facts: PodFacts, trouble: str, now: datetime) -> str:
    if facts.leaves_at is not None:
        if now - facts.leaves_at <= LONGEST_BEYOND_GRACE:
            return ""
        since = f"{facts.leaves_at:%Y-%m-%d %H:%M} UTC"
        return f"pod {facts.name} should be gone since {since}: its node may be gone"
    if facts.waits_since is None or now - facts.waits_since <= LONGEST_BEFORE_START:
        return ""
    reasons = ", ".join(reason for reason in (facts.words, trouble) if reason)
    minutes = LONGEST_BEFORE_START.seconds // 60
    return f"pod {facts.name} has not started within {minutes} minutes: {reasons}"
