"""Is this driver alive, and has it begun to work? Pure: what it said of itself and how long ago decide.

In a pod the kubelet asks the driver itself; on one machine reconciliation reads its heartbeat, by this rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from tidemill.checkpoint.status import Status

# How many triggers a stream may be silent before it counts as hung. Spark speaks at each batch, every 10 s
# while it idles, and the driver at each finished task; a late batch or two is load, ten are none.
SILENT_TRIGGERS = 10

# The least silence that counts as hung, whatever the trigger; that of a bounded run, too. Above the minutes
# that one task of a first batch may read, that Spark's Kafka clients wait for a broker (3), and that a cold
# start takes. To be killed by this must stay rare: the work is then repeated from its beginning.
LEAST_SILENCE = timedelta(minutes=15)


@dataclass(frozen=True)
class Probe:
    """The answer of a probe.

    Args:
        good: Whether it passes.
        reason: Why, for a person.
    """

    good: bool
    reason: str


def alive(state: str, silence: timedelta, trigger: timedelta | None) -> Probe:
    """Whether the driver shows that it lives: it works, or says itself why it cannot.

    Every change of the status is a sign of life, also `waiting` for an unavailable source, which the driver
    repeats; so are Spark's events and each task that ends. A bounded run has no trigger to measure by: it may
    take as long as it likes, but not be silent for longer than any driver may. Nor may one that has ended
    and whose process does not go.

    Args:
        state: What the driver says of itself.
        silence: Time since its last sign of life.
        trigger: A stream's trigger; None for a bounded run.
    """
    allowed = LEAST_SILENCE if trigger is None else max(LEAST_SILENCE, SILENT_TRIGGERS * trigger)
    if silence > allowed:
        return Probe(False, f"{state}, and no sign of life for {_seconds(silence)}")
    return Probe(True, f"{state}, last sign of life {_seconds(silence)} ago")


def ready(status: Status) -> Probe:
    """Whether the driver has committed a batch, or has read all that there is."""
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
