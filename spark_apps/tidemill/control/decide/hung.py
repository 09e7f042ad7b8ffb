"""Detection of a hung driver, by the rule of the pod's probe. Pure."""

from __future__ import annotations

from datetime import timedelta

from tidemill.control.runtime import StartedDriver
from tidemill.engine.liveness import alive

# Runbook page about drivers that do nothing.
NO_PROGRESS_PAGE = "stream-makes-no-progress"


def why_hung(driver: StartedDriver, trigger: timedelta | None) -> str:
    """Return a message if the driver's silence shows that it hangs; empty if it lives, or if that is unknown.

    In a pod the kubelet ends such a driver. Elsewhere the caller ends it.

    Args:
        driver: The driver.
        trigger: A stream's trigger; None for a bounded run.
    """
    if not driver.alive or driver.silence is None:
        return ""
    verdict = alive("it hangs", driver.silence, trigger)
    return "" if verdict.good else verdict.reason
