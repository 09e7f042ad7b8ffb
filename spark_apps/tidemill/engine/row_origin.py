"""The origin of a transform's rows, from Spark's plan; `backfill/analysed_plan.py` interprets the plan."""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import DataFrame

from tidemill.backfill.analysed_plan import Input, kept_columns, origin_of, windows_in
from tidemill.backfill.plan_tree import Document
from tidemill.backfill.row_origin import RowOrigin, SinkOrigin
from tidemill.engine.plan_check.analysed import plan_of, text_of
from tidemill.engine.scala import items


def find_origin(rows: DataFrame, result: DataFrame, event_time: str | None) -> RowOrigin:
    """Return the origin of the rows in `result`.

    Args:
        rows: Input of the transform. It is a stream, because only then Spark's plan distinguishes the stream
            from static tables.
        result: Output of the transform.
        event_time: The event-time column.
    """
    given = Input(_analysed(rows), _columns(rows), event_time)
    return origin_of(_analysed(result), _columns(result), given)


def origin_of_several(result: DataFrame) -> RowOrigin:
    """Return the origin for a transform of several streams; a range of one stream proves nothing about it."""
    windows = windows_in(_analysed(result))
    return RowOrigin(stateful=True, reason="rows are made of several streams", windows=windows)


def find_sink_origin(result: DataFrame, transform: Callable[[DataFrame], DataFrame]) -> SinkOrigin:
    """Return the effect of a sink's transform on the rows of the result, which is a stream here."""
    try:
        shaped = transform(result)
    except Exception as error:  # noqa: BLE001  # a user's function can fail in any way
        first_line = str(error).strip().partition("\n")[0]
        return SinkOrigin(reason=f"it cannot be analysed ({type(error).__name__}: {first_line})")
    given = Input(_analysed(result), _columns(result))
    return kept_columns(_analysed(shaped), _columns(shaped), given)


def _analysed(frame: DataFrame) -> Document:
    document: Document = json.loads(text_of(frame))
    return document


def _columns(frame: DataFrame) -> list[tuple[str, int]]:
    return [(attribute.name(), attribute.exprId().id()) for attribute in items(plan_of(frame).output())]
