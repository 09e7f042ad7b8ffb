"""Asking Spark what the rows of a transform are made of; `backfill/analysed_plan.py` reads the answer."""

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
    """What a transform makes `result` of.

    Args:
        rows: What it was given: a stream, since only there Spark tells a stream from a static table.
        result: What it gave back.
        event_time: The event-time column.
    """
    given = Input(_analysed(rows), _columns(rows), event_time)
    return origin_of(_analysed(result), _columns(result), given)


def origin_of_several(result: DataFrame) -> RowOrigin:
    """Rows of a transform of several streams: a backfill of a range of one of them proves nothing."""
    windows = windows_in(_analysed(result))
    return RowOrigin(stateful=True, reason="rows are made of several streams", windows=windows)


def find_sink_origin(result: DataFrame, transform: Callable[[DataFrame], DataFrame]) -> SinkOrigin:
    """What a sink's transform does to the rows of the result, which is a stream here."""
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
