"""The backfill drill: the copy's newest batch is planned, backfilled while its stream runs, and proven."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tidemill.backfill.bounds import parse_bounds
from tidemill.backfill.planning import plan_backfill
from tidemill.control.ask.bounded_run import backfill_run, start_bounded
from tidemill.control.ask.proof import prove_finished
from tidemill.control.game_day.rule import NotPossibleError, NotProvenError
from tidemill.control.spark_part import analysing
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import read_ledger

if TYPE_CHECKING:
    from tidemill.backfill.plan import BackfillPlan
    from tidemill.control.game_day.copy import Copy

# Seconds between two checks of the driver.
POLL_SECONDS = 0.5

# Maximum seconds for the backfill of one batch, including the start of Spark.
TIMEOUT_SECONDS = 600.0

# Commits of a table to search for a batch.
SEARCHED_COMMITS = 50


def backfill_newest(copy: Copy, tell: Callable[[str], None]) -> str:
    """Backfill the range of the newest batch with rows, and return the proof as text.

    Raises:
        NotPossibleError: If no batch records its offsets, or the pipeline's rows do not prove a range.
        NotProvenError: If the run did not finish.
    """
    made, plane, name = _plan(copy), copy.plane, copy.pipeline.name
    tell(f"backfill {made.digest}: {made.bounds.text()}")
    driver = start_bounded(plane, backfill_run(name, made.digest))
    deadline = time.monotonic() + TIMEOUT_SECONDS
    proof = prove_finished(plane, name, "backfill", driver.started_at)
    while proof.state == "pending" and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        proof = prove_finished(plane, name, "backfill", driver.started_at)
    if proof.state != "done":
        raise NotProvenError(proof.message)
    return f"backfill {made.digest} {proof.message}"


def _plan(copy: Copy) -> BackfillPlan:

    found = next(_ranges(copy), None)
    if found is None:
        raise NotPossibleError("no batch of the copy tells which offsets it has read")
    begin, end = (json.dumps(offsets) for offsets in found)
    plane, pipeline = copy.plane, copy.pipeline
    try:
        bounds = parse_bounds(None, None, begin, end)
        return plan_backfill(plane.store, pipeline, bounds, analysing(plane, pipeline))
    except (GateRefusedError, UsageError) as refusal:
        raise NotPossibleError(f"{refusal.error_id} {refusal.problem}") from refusal


def _ranges(copy: Copy) -> Iterator[tuple[Any, Any]]:
    """Yield the ranges that batches have read of their only source, the newest first."""
    for sink in copy.pipeline.spec.delta_sinks:
        for commit in read_ledger(copy.plane.layout.table(sink.table), SEARCHED_COMMITS):
            if commit.entry is not None and (read := _read(commit.entry)) is not None:
                yield read


def _read(entry: LedgerEntry) -> tuple[Any, Any] | None:
    if entry.mode != "stream" or len(entry.sources) != 1:
        return None
    (source,) = entry.sources.values()
    return None if not source.start or not source.end else (source.start, source.end)
