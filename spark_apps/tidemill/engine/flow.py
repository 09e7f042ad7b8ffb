"""One pipeline as one DataFrame and its outputs: source -> decode -> transform -> sinks."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from tidemill.engine.transform import apply_transform, check_event_time
from tidemill.payload.decode import Decoding, Stage, json_decoding
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.table_columns import table_columns
from tidemill.spec.project import Pipeline


@dataclass(frozen=True)
class Flow:
    """What is read and what is written.

    Args:
        frame: Rows for the sinks, or undecoded records if `before` is set.
        arrow_schema: Columns of the rows for the sinks.
        before: Decoding that the arrow writer takes into its own pass.
    """

    frame: DataFrame
    arrow_schema: pa.Schema
    before: Stage | None = None


def build_flow(
    pipeline: Pipeline, records: DataFrame, quarantine: Quarantine, condition: str | None = None
) -> Flow:
    """Rows of the sinks, lazily; `records` may be a stream or a batch.

    Args:
        pipeline: What runs.
        records: What the source gives.
        quarantine: Takes records that cannot be decoded.
        condition: Which decoded rows take part; a backfill's range.
    """
    payload = pipeline.spec.payload
    decoding = json_decoding(pipeline, payload.chosen, quarantine) if payload is not None else None
    if decoding is not None and records.isStreaming and decodes_while_writing(pipeline):
        if pipeline.spec.event_time is not None:
            check_event_time(pipeline, pipeline.spec.event_time, _decoded(records, decoding))
        return Flow(records, decoding.arrow_schema, decoding.stage)
    rows = records if decoding is None else _decoded(records, decoding)
    rows = apply_transform(pipeline, rows if condition is None else rows.where(condition))
    return Flow(rows, table_columns(rows.schema))


def decodes_while_writing(pipeline: Pipeline) -> bool:
    """Whether decoding and writing are one pass: nothing stands between records and one plain append."""
    if pipeline.spec.payload is None or pipeline.spec.transform is not None or len(pipeline.spec.sinks) != 1:
        return False
    sink = pipeline.spec.sinks[0].delta
    return sink is not None and sink.where is None and sink.writer_and_reason[0] == "arrow"


def _decoded(records: DataFrame, decoding: Decoding) -> DataFrame:
    return _in_few_tasks(records).mapInArrow(decoding.stage, decoding.spark_schema)


def _in_few_tasks(records: DataFrame) -> DataFrame:
    """As many tasks as cores: more only mean more runs of Python workers and more files.

    With executors that is the number when all of them are there (kubernetes_conf.py): as long as tasks wait,
    Spark adds executors.
    """
    return records.coalesce(records.sparkSession.sparkContext.defaultParallelism)
