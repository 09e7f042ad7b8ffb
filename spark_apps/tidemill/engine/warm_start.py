"""Carrying a warm start out: the first batch reads the past, and rows that the tables have are left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemill.backfill.row_origin import EventWindow
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.warm_start import WarmStart, read_warm_start, written_until
from tidemill.engine.flow import Flow
from tidemill.engine.run_context import RunContext
from tidemill.errors import SpecError


def past_to_read(run: RunContext) -> WarmStart | None:
    """The past that the next query reads, as one batch; None once that batch is finished."""
    layout, name = run.pipeline.layout, run.pipeline.name
    warm = read_warm_start(run.store, layout, name, run.generation)
    if warm is None or warm.start == warm.end:
        return None
    finished = CheckpointBatches(run.store, run.checkpoint).last_committed()
    return warm if finished is None else None


def without_written(run: RunContext, flow: Flow) -> Flow:
    """The flow without rows of windows that the tables had when the generation began.

    For good: such windows close in the batch after the past, and no later one.

    Raises:
        SpecError: TIDE-SPEC-044, if the code was changed and its rows are of no windows any more.
    """
    current = read_current(run.store, run.pipeline.layout, run.pipeline.name)
    until = None if current is None else written_until(run.store, run.pipeline.layout, current)
    if until is None:
        return flow
    window = flow.origin.window
    if window is None or not window.columns:
        raise SpecError(
            "TIDE-SPEC-044",
            "The generation began with a past, and the rows do not say of which windows they are any more.",
            facts={"pipeline": run.pipeline.name, "generation": run.generation},
            fix=f"keep the windows, or tidemill checkpoint reset {run.pipeline.name} without --warm",
            runbook="reset-checkpoint",
        )
    return replace(flow, frame=flow.frame.where(ends_after(window, until)))


def ends_after(window: EventWindow, moment: datetime) -> Column:
    """Whether a row is of a window that ends after a moment, by whatever column tells."""
    if window.end_columns:
        return F.col(f"`{window.end_columns[0]}`") > F.lit(moment)
    if window.struct_columns:
        return F.col(f"`{window.struct_columns[0]}`.`end`") > F.lit(moment)
    return F.col(f"`{window.start_columns[0]}`") > F.lit(moment - window.length)
