"""Liveness and readiness of a driver, decided by its status and the time of its last sign of life. Pure.

In a pod the kubelet probes the driver. On one machine, reconciliation reads its heartbeat and applies the
same rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidemill.checkpoint.status import Status

# Number of triggers for which a stream may be silent before it counts as hung. Spark reports each batch, and
# every 10 s while it idles; the driver reports each finished task. A delay of one or two batches is load, a
# delay of ten is not.
SILENT_TRIGGERS = 10

# Minimum silence that counts as hung, for any trigger and for bounded runs. It is longer than one task of a
# first batch may read, than Spark's Kafka clients wait for a broker (3 minutes), and than a cold start takes.
# A kill must stay rare, because the work is then repeated from its beginning.
LEAST_SILENCE = timedelta(minutes=15)


@dataclass(frozen=True)
class Probe:
    """The answer of a probe.

    Args:
        good: True if the probe passes.
        reason: Reason, for the operator.
    """

    good: bool
    reason: str


def alive(state: str, silence: timedelta, trigger: timedelta | None) -> Probe:
    """Return the liveness probe: the driver is alive if it works, or reports why it cannot.

    Every change of the status is a sign of life, including `waiting` for an unavailable source, which the
    driver repeats. So are Spark's events and each finished task. A bounded run has no trigger, so it may run
    for any time, but may not be silent for longer than `LEAST_SILENCE`. The same limit applies to a driver
    that has ended but whose process does not exit.

    Args:
        state: State in the driver's status.
        silence: Time since its last sign of life.
        trigger: A stream's trigger; None for a bounded run.
    """
    allowed = LEAST_SILENCE if trigger is None else max(LEAST_SILENCE, SILENT_TRIGGERS * trigger)
    if silence > allowed:
        return Probe(False, f"{state}, and no sign of life for {_seconds(silence)}")
    return Probe(True, f"{state}, last sign of life {_seconds(silence)} ago")


def ready(status: Status) -> Probe:
    """Return the readiness probe: the driver has committed a batch, or has read all available records."""
    if status.state in ("stopped", "failed"):
        return Probe(False, status.state)
    if status.batch_committed_at is not None:
        if status.trigger:
            words = f"without batches ({status.trigger}), at least once: note {status.batch_id} is there"
            return Probe(True, words)
        return Probe(True, f"batch {status.batch_id} is committed")
    if status.state == "waiting" and status.error is None:
        return Probe(True, "there is nothing to read")
    return Probe(False, f"{status.state}, no batch is committed yet")


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"
