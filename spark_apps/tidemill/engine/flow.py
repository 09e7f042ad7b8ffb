"""One pipeline as one DataFrame: source -> decode -> transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from tidemill.backfill.row_origin import RowOrigin, plain_origin
from tidemill.engine.plan_check.call_sites import CallSites
from tidemill.engine.plan_check.check import Finding, check_stream
from tidemill.engine.row_origin import find_origin
from tidemill.engine.sink_rows import sink_origins
from tidemill.engine.transform import apply_transform, check_event_time
from tidemill.payload.decode import Decoding, Stage, payload_decoding
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.typed_rows import typed_rows
from tidemill.sinks.table_columns import table_columns
from tidemill.sources.joined_tables import read_tables
from tidemill.spec.project import Pipeline


@dataclass(frozen=True)
class Flow:
    """What is read and what is written.

    Args:
        frame: Rows for the sinks, or undecoded records if `before` is set.
        arrow_schema: Columns of the rows for the sinks.
        before: Decoding, or sifting, that the arrow writer takes into its own pass.
        origin: What is proven of the rows of a stream.
        findings: What the transform does that a stream cannot do, or that one should know.
    """

    frame: DataFrame
    arrow_schema: pa.Schema
    before: Stage | None = None
    origin: RowOrigin = field(default_factory=RowOrigin)
    findings: list[Finding] = field(default_factory=list)


def build_flow(
    pipeline: Pipeline,
    records: DataFrame,
    quarantine: Quarantine,
    versions: Mapping[str, int] | None = None,
) -> Flow:
    """Rows of the sinks, lazily; `records` may be a stream or a batch.

    Args:
        pipeline: What runs.
        records: What the source gives.
        quarantine: Takes records that cannot be decoded.
        versions: Of the tables that are joined, in the place of the newest ones.
    """
    decoding = _decoding(pipeline, records, quarantine)
    if decoding is not None and records.isStreaming and decodes_while_writing(pipeline):
        if pipeline.spec.event_time is not None:
            check_event_time(pipeline, pipeline.spec.event_time, _decoded(records, decoding))
        return Flow(records, decoding.arrow_schema, decoding.stage, plain_origin(pipeline))
    return flow_of(pipeline, decoded_rows(pipeline, records, quarantine), versions)


def decoded_rows(pipeline: Pipeline, records: DataFrame, quarantine: Quarantine) -> DataFrame:
    """What the transform is given, lazily."""
    decoding = _decoding(pipeline, records, quarantine)
    return records if decoding is None else _decoded(records, decoding)


def flow_of(pipeline: Pipeline, rows: DataFrame, versions: Mapping[str, int] | None = None) -> Flow:
    """The rest of the way, for decoded rows."""
    calls = CallSites(pipeline.environment.project.transforms)
    result = apply_transform(pipeline, rows, read_tables(rows.sparkSession, pipeline, versions), calls)
    columns = table_columns(result.schema)
    if not rows.isStreaming:
        return Flow(result, columns)
    findings = check_stream(pipeline, rows, result, calls)
    event_time = pipeline.spec.event_time
    if pipeline.spec.transform is None:
        origin = plain_origin(pipeline)
    else:
        origin = find_origin(rows, result, None if event_time is None else event_time.column)
    sinks = dict(sink_origins(pipeline, result))
    return Flow(result, columns, origin=origin.model_copy(update={"sinks": sinks}), findings=findings)


def _decoding(pipeline: Pipeline, records: DataFrame, quarantine: Quarantine) -> Decoding | None:
    payload = pipeline.spec.payload
    if payload is not None:
        return payload_decoding(pipeline, payload, quarantine)
    return typed_rows(pipeline, records.schema, quarantine) if pipeline.spec.rejects_records else None


def decodes_while_writing(pipeline: Pipeline) -> bool:
    """Whether decoding and writing are one pass: nothing stands between records and one plain append."""
    if pipeline.spec.transform is not None or len(pipeline.spec.sinks) != 1:
        return False
    sink = pipeline.spec.sinks[0].delta
    if sink is None or sink.transform is not None or sink.where is not None:
        return False
    return sink.writer_and_reason[0] == "arrow"


def _decoded(records: DataFrame, decoding: Decoding) -> DataFrame:
    return _in_few_tasks(records).mapInArrow(decoding.stage, decoding.spark_schema)


def _in_few_tasks(records: DataFrame) -> DataFrame:
    """As many tasks as cores: more only mean more runs of Python workers and more files.

    With executors that is the number when all of them are there (kubernetes_conf.py): as long as tasks wait,
    Spark adds executors.
    """
    return records.coalesce(records.sparkSession.sparkContext.defaultParallelism)
