"""Keys that several kinds of sinks share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from tidemill.spec.capabilities import OutputMode, refusal_of
from tidemill.spec.refusal import Cell, RefusedError
from tidemill.spec.text import TRANSFORM_PATTERN, Expression


def supported_mode(sink: str) -> BeforeValidator:
    """Return a validator that refuses the modes which this kind of sink does not support."""

    def check(mode: object) -> object:
        refusal = refusal_of(Cell(sink=sink, mode=mode)) if isinstance(mode, str) else None
        if refusal is not None:
            raise RefusedError(refusal)
        return mode

    return BeforeValidator(check)


FollowedMode = Annotated[
    OutputMode | None,
    Field(
        description="Rows that the sink gets with each batch. append: final rows, which do not change "
        "again. update: the rows that changed. complete: the whole result. Default: the mode that the "
        "pipeline's tables need, or append if it has none.",
    ),
]

Where = Annotated[
    Expression | None,
    Field(
        description="SQL condition on the columns of the result, or of the sink's `transform` if it has one. "
        "Only matching rows are written."
    ),
]
SinkTransform = Annotated[
    str | None,
    Field(
        pattern=TRANSFORM_PATTERN,
        description="file:function in spark_apps/transforms: a stateless function DataFrame -> DataFrame "
        "that shapes each batch for this sink, e.g. the latest row per key before a merge, flattening, or "
        "another projection. It gets the pipeline's result, and `where` filters its output. Or file.sql in "
        "the same folder: one query over `result`.",
    ),
]
