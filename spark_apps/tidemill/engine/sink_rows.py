"""A sink's selection of a batch's rows: its transform, its condition, and its expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidemill.backfill.row_origin import SinkOrigin
from tidemill.engine.expectations import TableExpectations, places_lacking
from tidemill.engine.plan_check.conditions import why_not_of_one_row
from tidemill.engine.row_origin import find_sink_origin
from tidemill.engine.transform import Transform, cannot_be_applied, check_frame, load_transform
from tidemill.errors import DataError, SpecError
from tidemill.sinks.table_columns import table_columns
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.project import Pipeline

# Name of the pipeline's result in the query of a sink.
RESULT_NAME = "result"


@dataclass(frozen=True)
class SinkRows:
    """The rows that one sink writes.

    Args:
        columns: Columns of the rows to write.
        where: SQL condition on these columns.
        transform: The sink's transform, which raises Tidemill errors; None if the sink takes the result
            unchanged.
        expectations: Expectations for the rows that `of` returns; None if there are none.
    """

    columns: pa.Schema
    where: str | None = None
    transform: Transform | None = None
    expectations: TableExpectations | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows to write, for a batch or a range of the result.

        Raises:
            DataError: TIDE-DATA-002, if the transform fails; -004, if its columns differ from those at the
                start.
        """
        shaped = rows if self.transform is None else self.transform(rows)
        return shaped if self.where is None else shaped.where(self.where)


def sink_rows(pipeline: Pipeline, place: int, result: DataFrame) -> SinkRows:
    """Return a sink's selection of the result.

    Args:
        pipeline: The pipeline.
        place: Position of the sink in the pipeline file.
        result: The result, a stream or a batch. Only its columns count; the transform is applied to no rows.

    Raises:
        SpecError: TIDE-SPEC-016, if the transform cannot be loaded; TIDE-EXP-002 or -003, if an expectation
            cannot be checked; TIDE-SINK-030, if a condition does not fit the columns.
        DataError: TIDE-DATA-002, if it cannot be applied.
    """
    sink = pipeline.spec.sinks[place]
    none = result.sparkSession.createDataFrame([], result.schema)
    if sink.chosen.transform is None:
        rows = SinkRows(table_columns(result.schema), sink.chosen.where)
    else:
        rows, none = _shaped(pipeline, place, none)
    _check_conditions(pipeline, place, none)
    if sink.delta is None:
        return rows
    expected = _expectations(pipeline, f"sinks[{place}].delta", sink.delta, none)
    return replace(rows, expectations=expected if expected.declared or expected.key else None)


def _shaped(pipeline: Pipeline, place: int, none: DataFrame) -> tuple[SinkRows, DataFrame]:
    """Return the selection of a sink with a transform, and the transform's output for no rows."""
    sink = pipeline.spec.sinks[place]
    key, reference = f"sinks[{place}].{sink.kind}.transform", str(sink.chosen.transform)
    function = _function(pipeline, reference)

    def apply(rows: DataFrame) -> DataFrame:
        try:
            return function(rows)
        except Exception as error:  # a user's function can fail in any way
            raise cannot_be_applied(pipeline, key, reference, error) from error

    # A batch, as in every later call, because a stream supports less, e.g. not the newest row of each key.
    shaped_none = apply(none)
    columns = table_columns(shaped_none.schema)

    def checked(rows: DataFrame) -> DataFrame:
        shaped = apply(rows)
        found = table_columns(shaped.schema)
        if found != columns:
            raise _other_columns(pipeline, key, columns, found)
        return shaped

    return SinkRows(columns, sink.chosen.where, checked), shaped_none


def _check_conditions(pipeline: Pipeline, place: int, none: DataFrame) -> None:
    """Refuse conditions of a sink that Spark cannot apply to its columns."""
    sink = pipeline.spec.sinks[place]
    for key, condition in sink.conditions.items():
        try:
            none.where(condition)
        except PySparkException as error:
            raise SpecError(
                "TIDE-SINK-030",
                "A condition of a sink cannot be applied to its rows. Nothing was started.",
                facts={
                    "file": pipeline.environment.project.pipeline_file(pipeline.name),
                    "key": f"sinks[{place}].{sink.kind}.{key}",
                    "reason": str(error).strip().partition("\n")[0],
                    "columns": none.columns,
                },
                fix="write a SQL condition on the columns of the result, or of what the sink's own transform "
                "gives",
            ) from error


def _expectations(pipeline: Pipeline, key: str, table: DeltaSink, rows: DataFrame) -> TableExpectations:
    """Return the rules for the rows of a table: the declared expectations, and the key.

    Rows without a key go to the quarantine if the pipeline sets records aside and the Kafka record of each
    row is known. Otherwise the table's writer refuses them.

    Args:
        pipeline: The pipeline.
        key: Path of the sink in the pipeline file.
        table: The sink.
        rows: Empty rows with the columns of the table.

    Raises:
        SpecError: TIDE-EXP-002, -003.
    """
    # A new plan, because a transform's plan may contain anything.
    plain = rows.sparkSession.createDataFrame([], rows.schema)
    facts = {"file": pipeline.environment.project.pipeline_file(pipeline.name), "table": table.table}
    for name, expectation in table.expectations.items():
        reason = why_not_of_one_row(plain, expectation.expect)
        if reason:
            raise SpecError(
                "TIDE-EXP-002",
                "An expectation cannot be checked.",
                facts={**facts, "key": f"{key}.expectations.{name}", "reason": reason},
                fix="write a condition on the columns of one row, which are those that the table is given",
            )
    lacking = places_lacking(rows)
    one_topic = not pipeline.spec.has_named_streams and pipeline.spec.source.is_kafka
    if table.quarantines and one_topic and lacking:
        raise SpecError(
            "TIDE-EXP-003",
            "Rows that do not say which record they are of cannot go to the quarantine of a topic's records.",
            facts={**facts, "key": f"{key}.expectations", "lacking": ", ".join(lacking)},
            fix="keep these columns as they are in the transform; or use drop, warn or fail; or declare the "
            "expectation for the table of records that this one is made of",
        )
    keyed = table.merges and pipeline.spec.quarantines_rows and not (one_topic and lacking)
    return TableExpectations(
        pipeline.name,
        table.table,
        table.expectations,
        tuple(table.key) if keyed else (),
        None if table.cdc is None else table.cdc.truncate,
    )


def sink_origins(pipeline: Pipeline, result: DataFrame) -> Mapping[str, SinkOrigin]:
    """Return the proven origin of the rows of each table sink with a transform, by table.

    Args:
        pipeline: The pipeline.
        result: The result as a stream, because only then Spark's plan distinguishes it from a static table.
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
