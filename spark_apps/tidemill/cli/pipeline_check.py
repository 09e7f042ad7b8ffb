"""Checks of a project before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import SpecError, TidemillError
from tidemill.spec.capabilities import ELSEWHERE
from tidemill.spec.column_names import column_named
from tidemill.spec.ddl import levels_of
from tidemill.spec.files_after import check_files_of_all
from tidemill.spec.files_source import FilesSource
from tidemill.spec.iothub_source import DEVICE_COLUMN_TYPES
from tidemill.spec.near_key import near_key
from tidemill.spec.nesting import MAX_LEVELS
from tidemill.spec.project import Environment, Pipeline, resolve_pipeline
from tidemill.spec.table_graph import build_graph

# Prefix of the columns that every Kafka record has in addition to those of its payload (payload/decode.py).
LINEAGE_PREFIX = "kafka_"


@dataclass(frozen=True)
class Finding:
    """The result of checking one pipeline or file: the pipeline or an error."""

    name: str
    file: Path
    error: TidemillError | None = None
    pipeline: Pipeline | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Return True if the pipeline is valid but needs another kind of environment."""
        return self.error is not None and self.error.error_id in ELSEWHERE


def check_all(environment: Environment) -> list[Finding]:
    """Check every pipeline of the project, misnamed files, and conflicts between pipelines."""
    project = environment.project
    findings = check_named(environment, project.pipeline_names())
    findings += [Finding(file.name, file, _misnamed(file)) for file in project.misnamed_files()]
    findings += _check_pipelines_of(environment)
    right = [finding.pipeline for finding in findings if finding.pipeline is not None]
    specs = {pipeline.name: pipeline.spec for pipeline in right}
    try:
        check_files_of_all(right)
    except SpecError as error:
        findings.append(Finding("(all pipelines)", project.pipelines, error))
    if len(specs) == sum(not finding.is_elsewhere for finding in findings):
        try:
            build_graph(specs).order()
        except SpecError as error:
            findings.append(Finding("(all pipelines)", project.pipelines, error))
    return findings


def check_named(environment: Environment, names: Sequence[str]) -> list[Finding]:
    """Check the named pipelines. An unknown name is a finding."""
    return [_check(environment, name) for name in names]


def check_pipeline(environment: Environment, name: str) -> Pipeline:
    """Read a pipeline and check everything that does not need Spark.

    Raises:
        SpecError: Names file, key and fix.
    """
    pipeline = resolve_pipeline(environment, name)
    file = environment.project.pipeline_file(name)
    for stream in pipeline.streams.values():
        try:
            columns = decoded_columns(stream)
        except SpecError as error:
            # The error of a files source's schema does not have the pipeline file.
            error.facts = {"file": file, **error.facts}
            raise
        if columns is not None:
            _check_columns(stream, columns)
    return pipeline


def decoded_columns(pipeline: Pipeline) -> dict[str, str] | None:
    """Return the columns and types of the single stream; None if only its source knows them.

    Raises:
        SpecError: If the payload schema or the DDL is wrong.
    """
    source = pipeline.spec.source
    of_device = DEVICE_COLUMN_TYPES if source.has_device_columns else {}
    if pipeline.spec.payload is not None:
        from tidemill.payload.decoders import decoder_of

        decoder = decoder_of(pipeline.spec.payload, pipeline.environment.project.schemas)
        return {**{field.name: str(field.type) for field in decoder.columns}, **of_device}
    if source.files is not None and source.files.discovers:
        _check_hints(pipeline, source.files)
        return None
    if source.files is not None:
        from tidemill.payload.declared_columns import declared_schema

        return {field.name: str(field.type) for field in declared_schema(source.files).arrow_schema}
    if source.kind in ("rate", "rate_per_batch"):
        return {"timestamp": "timestamp", "value": "long"}
    if source.socket is not None:
        times = {"timestamp": "timestamp"} if source.socket.arrival_time else {}
        return {"value": "string", **times}
    return {**of_device} if source.is_kafka else None


def _check_hints(pipeline: Pipeline, files: FilesSource) -> None:
    """Check that the hints are valid and include the event time, because timestamps are never inferred."""
    from tidemill.payload.schema_hints import hints_of

    hints = hints_of(files)["properties"]
    event_time = pipeline.spec.event_time
    if event_time is not None and hints.get(event_time.column, {}).get("format") != "date-time":
        raise SpecError(
            "TIDE-SPEC-026",
            "A column cannot be used: of columns that are inferred, none is a timestamp.",
            facts={
                "file": pipeline.environment.project.pipeline_file(pipeline.name),
                "key": "event_time.column",
                "column": event_time.column,
            },
            fix=f"add `{event_time.column} timestamp` to the source's `schema_hints`",
        )


def lineage_columns(pipeline: Pipeline) -> list[str]:
    """Return the columns with the origin of Kafka records (payload/decode.py); empty for other sources."""
    spec = pipeline.spec
    if not spec.source.is_kafka:
        return []
    keeps_value = spec.payload is None or spec.payload.chosen.keep_raw
    names = ["key", *(["value"] if keeps_value else []), "topic", "partition", "offset", "timestamp"]
    return [LINEAGE_PREFIX + name for name in [*names, *(["headers"] if spec.source.chosen.headers else [])]]


def _check_pipelines_of(environment: Environment) -> list[Finding]:
    """Return findings about undeclared pipelines to which the environment gives separate Secrets.

    The pipeline that was meant would get the Secrets of all pipelines.
    """
    known = environment.project.pipeline_names()
    settings = environment.spec.kubernetes
    unknown = [] if settings is None else sorted(settings.pipelines.keys() - set(known))
    errors = [
        SpecError(
            "TIDE-SPEC-046",
            "The environment names a pipeline that is not declared.",
            facts={"file": environment.file, "key": f"kubernetes.pipelines.{name}"},
            fix=f"did you mean {near}?" if (near := near_key(name, known)) else "correct or remove the key",
        )
        for name in unknown
    ]
    return [Finding(environment.file.name, environment.file, error) for error in errors]


def _check(environment: Environment, name: str) -> Finding:
    file = environment.project.pipelines / f"{name}.yaml"
    try:
        return Finding(name, file, pipeline=check_pipeline(environment, name))
    except TidemillError as error:
        return Finding(name, file, error)


def _check_columns(pipeline: Pipeline, columns: dict[str, str]) -> None:
    """Check that the event-time column is a timestamp and, without a transform, that sink columns exist."""
    event_time = pipeline.spec.event_time
    if event_time is not None:
        found = _check_column(pipeline, columns, "event_time.column", event_time.column)
        _check_spelling(pipeline, columns, event_time.column)
        if found is not None and not found.startswith("timestamp"):
            raise _wrong_column(
                pipeline, "event_time.column", event_time.column, f"it is {found}, not a timestamp", None
            )
    if pipeline.spec.transform is not None:
        return
    for index, sink in enumerate(pipeline.spec.sinks):
        if sink.chosen.transform is not None:
            continue
        _check_levels(pipeline, f"sinks[{index}].delta", columns)
        for key, named in sink.named_columns.items():
            for column in named:
                _check_column(pipeline, columns, f"sinks[{index}].{sink.kind}.{key}", column)


def _check_levels(pipeline: Pipeline, key: str, columns: dict[str, str]) -> None:
    """Check that every reader can open the nesting of all columns."""
    for column, kind in columns.items():
        if levels_of(kind) > MAX_LEVELS:
            raise SpecError(
                "TIDE-SPEC-072",
                "A column is nested deeper than every reader of a table can open.",
                facts={
                    "file": pipeline.environment.project.pipeline_file(pipeline.name),
                    "key": key,
                    "column": column,
                    "levels": levels_of(kind),
                    "max_levels": MAX_LEVELS,
                },
                fix=f"write the deep part as text in a transform, e.g. `to_json({column})`, or flatten it",
            )


def _check_column(pipeline: Pipeline, columns: dict[str, str], key: str, column: str) -> str | None:
    """Return the type of a column; None for lineage columns, whose type only a running source knows."""
    lineage = lineage_columns(pipeline)
    found = column_named(column, [*columns, *lineage])
    if found is None and key.endswith(".cluster_by"):
        # It may be a field of a struct, which Delta checks when it creates the table.
        found = column_named(column.partition(".")[0], columns)
    if found is not None:
        return columns.get(found)
    known = ", ".join([*columns, *lineage])
    raise _wrong_column(
        pipeline,
        key,
        column,
        f"there is no such column; there are {known}",
        near_key(column, [*columns, *lineage]),
    )


def _check_spelling(pipeline: Pipeline, columns: dict[str, str], column: str) -> None:
    """Refuse an event-time column whose case is wrong, because Arrow distinguishes columns by case."""
    known = [*columns, *lineage_columns(pipeline)]
    if column not in known:
        found = column_named(column, known)
        raise _wrong_column(pipeline, "event_time.column", column, f"its name is {found}", found)


def _wrong_column(pipeline: Pipeline, key: str, column: str, reason: str, near: str | None) -> SpecError:
    return SpecError(
        "TIDE-SPEC-026",
        f"A column cannot be used: {reason}.",
        facts={
            "file": pipeline.environment.project.pipeline_file(pipeline.name),
            "key": key,
            "column": column,
        },
        fix=f"did you mean {near}?" if near else "correct the pipeline file or the schema",
    )


def _misnamed(file: Path) -> SpecError:
    return SpecError(
        "TIDE-SPEC-029",
        "A file in the pipelines folder is no pipeline because of its name.",
        facts={"file": file},
        fix="rename it: lower-case letters, digits and underscores, a letter first, 40 at most, then .yaml; "
        "or move it away",
    )
