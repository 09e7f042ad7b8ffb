"""Counting of rows without an event time, which windows drop."""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import DataFrame

from tidemill.engine.plan_check.analysed import classes_in, root_of
from tidemill.payload.untimed_rows import UntimedRows
from tidemill.spec.project import Pipeline

# Spark's expression for the bounds of a time window; it has no other use.
_WINDOW = "PreciseTimestampConversion"


def untimed_rows(context: SparkContext, pipeline: Pipeline) -> UntimedRows | None:
    """Return the counter; None without event time or transform, or if `late: table` takes such rows."""
    spec = pipeline.spec
    timed = any(stream.event_time is not None for stream in spec.streams.values())
    return UntimedRows.at(context) if timed and spec.transform is not None and not spec.keeps_late else None


def has_windows(frame: DataFrame) -> bool:
    """Return True if the rows pass a time window, which drops rows without an event time."""
    nodes = root_of(frame).walk()
    return any(name == _WINDOW for node in nodes for name, _ in classes_in(node.fields))
