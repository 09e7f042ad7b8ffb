"""G7: refuse the start while a hold exists, and warn if another driver reported recently.

The gate cannot prove that a driver lives. A killed driver leaves a fresh status, and a refusal after each
crash would itself cause an outage. Two other mechanisms ensure that at most one driver runs: the runtime's
slot, and the epoch, which fences the older driver before its next batch. So a fresh status is only a warning,
and `tidemill checkpoint gate` also asks the runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import CheckpointFacts
from tidemill.checkpoint.holds import Hold

# Maximum age of a status, in seconds, for its driver to count as possibly alive. A live driver writes its
# status after each batch, and about every 10 s while it idles (Spark's idle event). While the source does not
# answer, engine/source_watch.py writes it at intervals of at least 12 s.
FRESH_SECONDS = 30.0


def holds_on(pipeline: str, holds: Iterable[Hold]) -> Iterator[Finding]:
    """Yield an error for each hold."""
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
    """Warn if another driver reported recently that it runs."""
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
