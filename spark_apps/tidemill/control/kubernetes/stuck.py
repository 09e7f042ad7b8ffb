"""Detect a driver that neither works nor ends, and needs an operator. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidemill.control.kubernetes.observed import Observed
from tidemill.control.kubernetes.pod_facts import PodFacts

# Maximum time from the creation of a pod, or from the claim if no pod is created, until its container starts.
# A node that an autoscaler adds takes three minutes, an image of 2 GB one minute. The same limit applies
# between two lives of a container.
LONGEST_BEFORE_START = timedelta(minutes=5)

# Maximum time that a pod exists beyond its grace period. The kubelet kills and removes it in seconds, and the
# API server's clock, which set the time, may differ from the local clock.
LONGEST_BEYOND_GRACE = timedelta(seconds=60)


def why_stuck(observed: Observed, claimed_at: datetime, trouble: str, now: datetime) -> str:
    """Return the reason in readable form; empty if the driver works, or still may.

    Args:
        observed: The slot of a running driver.
        claimed_at: Time of the decision to start it.
        trouble: The cluster's reason why it does not start.
        now: The current time.
    """
    pods = [facts for facts in (*observed.stream_pods, *observed.job_pods) if not facts.has_ended]
    if pods:
        return next((words for facts in pods if (words := _why_pod_is_stuck(facts, trouble, now))), "")
    # Without a reason, the pod may just have been deleted, and its successor is being created.
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
