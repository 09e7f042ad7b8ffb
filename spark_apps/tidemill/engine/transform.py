"""Loading and application of the pure functions of a pipeline."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampType

from tidemill.engine.classify import classify
from tidemill.engine.models import Model, load_models
from tidemill.engine.plan_check.call_sites import CallSites, failed_call
from tidemill.engine.sql_transform import sql_transform
from tidemill.errors import DataError, SpecError, TidemillError
from tidemill.failed_at import failed_at, may_quote
from tidemill.names import SOURCE_NAME
from tidemill.spec.column_names import quoted
from tidemill.spec.event_time import EventTime
from tidemill.spec.project import Pipeline
from tidemill.spec.transform_rules import wrong_call
from tidemill.spec.units import format_duration

Transform = Callable[..., DataFrame]

# Texts with which Spark refuses a call that would run the stream.
_RUNS_THE_STREAM = (
    "Queries with streaming sources must be executed with writeStream.start()",
    "CALL_ON_STREAMING_DATASET_UNSUPPORTED",
    "pivot is not supported on a streaming",
)


# Ids that `classify` returns for errors in user code, and for unknown errors.
_OF_THE_FUNCTION = ("TIDE-DATA-003", "TIDE-INT-001")


def apply_transform(
    pipeline: Pipeline, rows: Mapping[str, DataFrame], tables: Mapping[str, DataFrame], calls: CallSites
) -> DataFrame:
    """Return the rows of the result for the rows of the sources; the same call for streams and batches.

    Args:
        pipeline: Pipeline with the transform.
        rows: Rows of each stream, by name.
        tables: Joined tables, by name.
        calls: Records the line of code that created each part of the plan.

    Raises:
        SpecError: If the event-time column or the function is missing; TIDE-PLAN-…, if it calls a function
            that a transform must not call.
        DataError: TIDE-DATA-002, if the function fails or returns no DataFrame.
    """
    for name, stream in pipeline.streams.items():
        if stream.spec.event_time is not None:
            check_event_time(stream, stream.spec.event_time, rows[name])
    if pipeline.spec.transform is None and not pipeline.spec.keeps_late:
        return rows[SOURCE_NAME]
    clocked = {name: _with_watermark(stream, rows[name]) for name, stream in pipeline.streams.items()}
    if pipeline.spec.transform is None:
        return clocked[SOURCE_NAME]
    transform = load_transform(pipeline, pipeline.spec.transform)
    models = load_models(next(iter(rows.values())).sparkSession, pipeline)
    try:
        with calls.watched():
            return check_frame(_call(pipeline, transform, clocked, {**tables, **models}))
    except Exception as error:  # a user's function can fail in any way
        raise _not_applicable(pipeline, error) from error


def _with_watermark(pipeline: Pipeline, rows: DataFrame) -> DataFrame:
    event_time = pipeline.spec.event_time
    if event_time is None:
        return rows
    return rows.withWatermark(quoted(event_time.column), format_duration(event_time.watermark))


def check_frame(result: object) -> DataFrame:
    """Return the result of a function.

    Raises:
        TypeError: If it is not a DataFrame.
    """
    if not isinstance(result, DataFrame):
        raise TypeError(f"it returns {type(result).__name__} instead of a DataFrame")
    return result


def _call(
    pipeline: Pipeline,
    transform: Transform,
    rows: Mapping[str, DataFrame],
    named: Mapping[str, DataFrame | Model],
) -> DataFrame:
    """Call the transform: with one source by position, with several sources or a query by name.

    Tables and models (`named`) are also passed by name.
    """
    spec = pipeline.spec
    if spec.sources is None and not (spec.transform or "").endswith(".sql"):
        return transform(rows[SOURCE_NAME], **named)
    streams = rows if spec.has_named_streams else {spec.parameter: rows[SOURCE_NAME]}
    return transform(**streams, **named)


def _not_applicable(pipeline: Pipeline, error: Exception) -> TidemillError:
    """Return the error of the user's function, with its line, or of files that it reads itself."""
    if (met := _met_in_spark(error)) is not None:
        return met
    facts: dict[str, object] = {"pipeline": pipeline.name, "transform": pipeline.spec.transform}
    failed = failed_call(error.__traceback__, pipeline.environment.project.transforms)
    if failed is not None:
        facts["file"] = failed.place
    reason = _told(error)
    runs_the_stream = isinstance(error, AnalysisException) and any(
        words in reason for words in _RUNS_THE_STREAM
    )
    if failed is not None and failed.method and runs_the_stream:
        return wrong_call(failed.method, {**facts, "reason": reason})
    return DataError(
        "TIDE-DATA-002",
        "The transform cannot be applied.",
        facts={**facts, "reason": reason},
        fix="correct the transform; the columns it gets are listed by: tidemill plan " + pipeline.name,
    )


def _met_in_spark(error: Exception) -> TidemillError | None:
    """Return Spark's error about a file, a table or the storage; None if the function is the cause."""
    found = classify(error)
    is_of_the_function = not isinstance(error, PySparkException) or found.error_id in _OF_THE_FUNCTION
    return None if is_of_the_function else found


def _told(error: Exception) -> str:
    """Return the message; without its text if it may quote records, as in a function that runs Spark jobs."""
    if may_quote(error):
        return failed_at(error)
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def cannot_be_applied(pipeline: Pipeline, key: str, reference: str, error: Exception) -> TidemillError:
    """Return the error for a sink's function that failed, or for files or tables that it reads itself.

    Args:
        pipeline: The pipeline.
        key: Path of the function in the pipeline file.
        reference: Reference of the form `file:function` or `file.sql`.
        error: The failure.
    """
    if (met := _met_in_spark(error)) is not None:
        return met
    return DataError(
        "TIDE-DATA-002",
        "The transform cannot be applied.",
        facts={
            "pipeline": pipeline.name,
            "key": key,
            "transform": reference,
            "reason": _told(error),
        },
        fix="correct the transform; it gets the columns of the pipeline's result",
    )


def load_transform(pipeline: Pipeline, reference: str) -> Transform:
    """Import a function, or read a query.

    Args:
        pipeline: The pipeline.
        reference: Reference of the form `file:function` or `file.sql`.

    Raises:
        SpecError: TIDE-SPEC-016, if the file does not define it or fails to load.
    """
    path = pipeline.environment.project.transform_file(reference)
    if path.suffix == ".sql":
        return sql_transform(path)
    loaded: Transform = load_code(pipeline, reference)
    return loaded


def load_code(pipeline: Pipeline, reference: str) -> Any:
    """Import a function or class of the project; nothing of the file is cached between drivers.

    Args:
        pipeline: The pipeline.
        reference: Reference of the form `file:name`.

    Raises:
        SpecError: TIDE-SPEC-016, if the file does not define it or fails to load.
    """
    path = pipeline.environment.project.transform_file(reference)
    name = reference.partition(":")[2]
    module_name = f"tidemill_transform_{path.stem}"
    loader = _FreshLoader(module_name, str(path))
    spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
    try:
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)
    except Exception as error:  # a user's file can fail in any way
        raise SpecError(
            "TIDE-SPEC-016",
            "The transform file cannot be loaded.",
            facts={"file": path, "name": name, "reason": f"{type(error).__name__}: {error}"},
            fix=f"define `{name}` in the file: of a transform, `def {name}(rows: DataFrame) -> DataFrame`",
        ) from error


class _FreshLoader(SourceFileLoader):
    """Compiles the file at each load.

    Python's cache would treat files with the same size and modification second as equal.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled code of the current file."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def check_event_time(pipeline: Pipeline, event_time: EventTime, rows: DataFrame) -> None:
    """Refuse an event-time column that is missing or not a timestamp.

    Raises:
        SpecError: TIDE-SPEC-017, with the existing columns.
    """
    types = {field.name: field.dataType for field in rows.schema}
    if not isinstance(types.get(event_time.column), TimestampType):
        raise SpecError(
            "TIDE-SPEC-017",
            "The event-time column is not a timestamp column of the source.",
            facts={
                "pipeline": pipeline.name,
                "event_time.column": event_time.column,
                "columns": ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items()),
            },
            fix="name a timestamp column as it is written there; in a JSON Schema that is a string with "
            "`format: date-time`",
        )
