"""A warm start: the first batch reads the past, and rows that the tables already have are left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemill.backfill.row_origin import EventWindow
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.warm_start import WarmStart, read_warm_start
from tidemill.engine.flow import Flow
from tidemill.engine.run_context import RunContext
from tidemill.errors import SpecError
from tidemill.spec.column_names import quoted

_EPOCH = datetime.fromtimestamp(0, UTC)


def past_to_read(run: RunContext) -> WarmStart | None:
    """Return the past that the next query reads as one batch; None once that batch is finished."""
    warm = read_warm_start(run.store, run.checkpoint)
    if warm is None or warm.start == warm.end:
        return None
    finished = CheckpointBatches(run.store, run.checkpoint).last_committed()
    return warm if finished is None else None


def without_written(run: RunContext, flow: Flow) -> Flow:
    """Return the flow without rows of windows that the tables had when the generation began.

    The filter is permanent. Such windows close in the batch after the past, and in no later one.

    Raises:
        SpecError: TIDE-SPEC-044, if the code was changed and its rows no longer belong to windows.
    """
    until = _written_until(run)
    if until is None:
        return flow
    window = flow.origin.window
    if window is None or not window.columns:
        raise SpecError(
            "TIDE-SPEC-044",
            "The generation began with a past, and the rows do not say of which windows they are any more.",
            facts={"pipeline": run.pipeline.name, "generation": run.generation},
            fix="keep the windows, or begin without the past: "
            f"tidemill checkpoint reset {run.pipeline.name} --from earliest",
            runbook="reset-checkpoint",
        )
    return replace(flow, frame=flow.frame.where(ends_after(window, until)))


def late_before(run: RunContext) -> int:
    """Return the time before which rows are late regardless of the watermark, in milliseconds since 1970.

    The tables already have the windows before this time. Spark drops events of these windows by the watermark
    of the batch before. The batch after the past has no such watermark yet if the driver stopped between the
    two.
    """
    until = None if past_to_read(run) is not None else _written_until(run)
    return 0 if until is None else (until - _EPOCH) // timedelta(milliseconds=1)


def _written_until(run: RunContext) -> datetime | None:
    warm = read_warm_start(run.store, run.checkpoint)
    return None if warm is None else warm.written_until


def ends_after(window: EventWindow, moment: datetime) -> Column:
    """Return a condition for rows whose window ends after a time, by any column that shows it."""
    if window.end_columns:
        return F.col(quoted(window.end_columns[0])) > F.lit(moment)
    if window.struct_columns:
        return F.col(f"{quoted(window.struct_columns[0])}.`end`") > F.lit(moment)
    return F.col(quoted(window.start_columns[0])) > F.lit(moment - window.length)
