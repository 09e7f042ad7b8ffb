"""G7: is someone else at it? A hold forbids the start; a driver that was heard of a moment ago does not.

The gate cannot prove life: a driver that was killed leaves a fresh status, and refusing to start after it
would be the outage itself. That at most one driver runs is seen to elsewhere: by the runtime's slot, and by
the epoch, which fences the older one off before its next batch. So this is a warning, and `tidemill
checkpoint gate` asks the runtime as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import CheckpointFacts
from tidemill.checkpoint.holds import Hold

# Age of a status, in seconds, below which its driver may live: one that is alive writes it after each
# batch, and an idle one at least every 12 s (engine/source_watch.py looks at a silent source that often).
FRESH_SECONDS = 30.0


def holds_on(pipeline: str, holds: Iterable[Hold]) -> Iterator[Finding]:
    """Each hold as a reason not to start."""
    for hold in holds:
        yield Finding(
            "TIDE-CKPT-029",
            "error",
            pipeline,
            "A hold forbids the start: someone changes checkpoint or tables, or has not finished.",
            {"pipeline": pipeline, **hold.facts},
            hold.to_do or f"once its reason is gone: tidemill checkpoint release {pipeline} {hold.id}",
            runbook="hold",
        )


def alive(facts: CheckpointFacts) -> Iterator[Finding]:
    """A driver that was heard of a moment ago."""
    driver = facts.last_driver
    if driver is None or driver.state in ("stopped", "failed") or driver.age_seconds >= FRESH_SECONDS:
        return
    yield Finding(
        "TIDE-CKPT-090",
        "warning",
        facts.pipeline,
        "Another driver said a moment ago that it runs. If it lives, a start fences it off before its "
        "next batch; if it was killed, all is well.",
        facts.about(run_id=driver.run_id, state=driver.state, age_seconds=round(driver.age_seconds, 1)),
        f"tidemill status {facts.pipeline}",
        runbook="two-drivers",
    )
