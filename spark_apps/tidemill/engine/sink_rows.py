"""What a sink makes of a batch's rows: its own transform, then its condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from tidemill.backfill.row_origin import SinkOrigin
from tidemill.engine.row_origin import find_sink_origin
from tidemill.engine.transform import Transform, cannot_be_applied, check_frame, load_transform
from tidemill.errors import DataError
from tidemill.sinks.table_columns import table_columns
from tidemill.spec.project import Pipeline

# Name of the pipeline's result in the query of a sink.
RESULT_NAME = "result"


@dataclass(frozen=True)
class SinkRows:
    """How one sink shapes the result.

    Args:
        columns: Columns of the rows that it is given to write.
        where: SQL condition on them.
        transform: Its own transform, which raises our errors; None if it takes the result as it is.
    """

    columns: pa.Schema
    where: str | None = None
    transform: Transform | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows to write, of a batch or a range of the result.

        Raises:
            DataError: TIDE-DATA-002, if the transform fails; -004, if it gives other columns than at the
                start.
        """
        shaped = rows if self.transform is None else self.transform(rows)
        return shaped if self.where is None else shaped.where(self.where)


def sink_rows(pipeline: Pipeline, place: int, result: DataFrame) -> SinkRows:
    """How a sink shapes the result.

    Args:
        pipeline: The pipeline.
        place: Place of the sink in the file.
        result: The result, a stream or a batch. Only its columns count: they are asked for with no rows.

    Raises:
        SpecError: TIDE-SPEC-016, if the transform cannot be loaded.
        DataError: TIDE-DATA-002, if it cannot be applied.
    """
    sink = pipeline.spec.sinks[place]
    key, reference = f"sinks[{place}].{sink.kind}.transform", sink.chosen.transform
    if reference is None:
        return SinkRows(table_columns(result.schema), sink.chosen.where)
    function = _function(pipeline, reference)

    def apply(rows: DataFrame) -> DataFrame:
        try:
            return function(rows)
        except Exception as error:  # a user's function can fail in any way
            raise cannot_be_applied(pipeline, key, reference, error) from error

    # A batch, as at every later call: a stream knows less, such as the newest row of each key.
    columns = table_columns(apply(result.sparkSession.createDataFrame([], result.schema)).schema)

    def checked(rows: DataFrame) -> DataFrame:
        shaped = apply(rows)
        found = table_columns(shaped.schema)
        if found != columns:
            raise _other_columns(pipeline, key, columns, found)
        return shaped

    return SinkRows(columns, sink.chosen.where, checked)


def sink_origins(pipeline: Pipeline, result: DataFrame) -> Mapping[str, SinkOrigin]:
    """What is proven of the transforms of table sinks, by table.

    Args:
        pipeline: The pipeline.
        result: The result as a stream: only there Spark tells it from a static table.
    """
    references = {sink.table: sink.transform for sink in pipeline.spec.delta_sinks}
    return {
        table: find_sink_origin(result, _function(pipeline, reference))
        for table, reference in references.items()
        if reference is not None
    }


def _function(pipeline: Pipeline, reference: str) -> Callable[[DataFrame], DataFrame]:
    loaded = load_transform(pipeline, reference)
    if reference.endswith(".sql"):
        return lambda rows: loaded(**{RESULT_NAME: rows})
    return lambda rows: check_frame(loaded(rows))


def _other_columns(pipeline: Pipeline, key: str, expected: pa.Schema, found: pa.Schema) -> DataError:
    return DataError(
        "TIDE-DATA-004",
        "The transform of a sink gives other columns for this batch than for one without rows. "
        "Nothing was written.",
        facts={
            "pipeline": pipeline.name,
            "key": key,
            "expected": ", ".join(f"{field.name} {field.type}" for field in expected),
            "found": ", ".join(f"{field.name} {field.type}" for field in found),
        },
        fix="end the transform with a `select` of named columns; name the values of a `pivot`",
    )
