"""Events during a run: it crashes and starts again, or a backfill recomputes a range."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.live_side import LiveSide, read_live_side
from tidemill.backfill.planning import plan_backfill
from tidemill.backfill.row_origin import EventWindow, read_origin
from tidemill.sinks.batch_commit import StepDone, nothing_more
from tidemill.storage.store import Store
from tidemill.testing.arrivals import nothing_to_compare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemill.spec.project import Pipeline

T = TypeVar("T")


class CrashedError(Exception):
    """A simulated crash of the driver: nothing of the run continues after the step."""


def crash_after(step: int) -> StepDone:
    """Return an observer that raises after `step` steps."""
    done = itertools.count(1)

    def crash(name: str) -> None:
        if next(done) == step:
            raise CrashedError(f"{step}: {name}")

    return crash


def started_again(run: Callable[[StepDone], T], crash: int) -> T:
    """Run, crash after a step if the run has that many, and run again; 0 for no crash."""
    if crash:
        try:
            return run(crash_after(crash))
        except CrashedError:
            pass
    return run(nothing_more)


def backfill_closed(
    spark: SparkSession,
    pipeline: Pipeline,
    seen: Sequence[datetime | None],
    step_done: StepDone = nothing_more,
) -> None:
    """Recompute everything that the live run has written and no later row can change, if there is anything.

    Args:
        spark: The session.
        pipeline: The pipeline, after a run.
        seen: Event times of the rows that it was given.
        step_done: Called after each step.

    Raises:
        UsageError: TIDE-BACK-002 to -018, if no backfill can replace its rows; TIDE-TEST-006, if only a
            backfill of a real topic can.
    """
    from tidemill.engine.in_session import backfill_in_session

    store = Store(pipeline.layout.root)
    live = read_live_side(store, pipeline)
    bounds = None if live is None else _bounds(store, pipeline, live, [at for at in seen if at is not None])
    if bounds is None:
        return
    plan = plan_backfill(store, pipeline, bounds, lambda: None)
    backfill_in_session(spark, pipeline, store, plan, step_done)


def _bounds(store: Store, pipeline: Pipeline, live: LiveSide, seen: list[datetime]) -> Bounds | None:
    origin = read_origin(store, pipeline)
    if origin is not None and origin.record is not None:
        if live.offsets is None:
            raise nothing_to_compare(
                "Only a real topic has offsets, by which a backfill could replace these rows.",
                {"pipeline": pipeline.name},
                "hand in `broker=tidemill_broker`, of a pipeline that reads a topic",
            )
        starts = {topic: dict.fromkeys(ends, 0) for topic, ends in live.offsets.items()}
        is_empty = not any(end for ends in live.offsets.values() for end in ends.values())
        return None if is_empty else Bounds(start_offsets=starts, end_offsets=live.offsets)
    if origin is None or origin.window is None or not origin.window.slide:
        # The plan reports what is wrong with any range.
        return Bounds(start=min(seen, default=None), end=max(seen, default=None))
    if live.closed_until is None or not seen:
        return None
    return closed_windows(origin.window, min(seen), live.closed_until)


def closed_windows(window: EventWindow, earliest: datetime, closed: datetime) -> Bounds | None:
    """Return the starts of all closed windows, beginning with the first row's window."""
    start, _ = window.starts_in(earliest - window.length + window.slide, closed)
    end, _ = window.starts_in(closed - window.length + window.slide, closed)
    return Bounds(start=start, end=end) if start < end else None
