"""Whether a driver hangs, by the rule that a pod's probe has. Pure."""

from __future__ import annotations

from datetime import timedelta

from tidemill.control.runtime import StartedDriver
from tidemill.engine.liveness import alive

# The page about drivers that do nothing.
NO_PROGRESS_PAGE = "stream-makes-no-progress"


def why_hung(driver: StartedDriver, trigger: timedelta | None) -> str:
    """Words for a driver whose silence says that it hangs; empty if it lives, or if nobody can tell.

    In a pod the kubelet ends such a driver. Elsewhere whoever asks this does.

    Args:
        driver: The driver.
        trigger: A stream's trigger; None for a bounded run.
    """
    if not driver.alive or driver.silence is None:
        return ""
    verdict = alive("it hangs", driver.silence, trigger)
    return "" if verdict.good else verdict.reason
