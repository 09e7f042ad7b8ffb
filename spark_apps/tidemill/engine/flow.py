"""One pipeline as one DataFrame: source → decode → transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemill.backfill.row_origin import RowOrigin, plain_origin
from tidemill.engine.joined_files import read_joined_files
from tidemill.engine.plan_check.call_sites import CallSites
from tidemill.engine.plan_check.check import Finding, check_stream
from tidemill.engine.row_origin import find_origin, origin_of_several
from tidemill.engine.sink_rows import sink_origins
from tidemill.engine.transform import apply_transform, check_event_time
from tidemill.ledger.entry import Joined
from tidemill.names import SOURCE_NAME
from tidemill.payload.arrow_pass import map_in_arrow
from tidemill.payload.decode import Decoding, Stage, payload_decoding
from tidemill.payload.device_columns import device_records, device_schema
from tidemill.payload.discovered import DiscoveredColumns
from tidemill.payload.files.file_columns import FileColumns
from tidemill.payload.files.readers import file_reader
from tidemill.payload.files.reading import file_decoding
from tidemill.payload.late_rows import LateRows
from tidemill.payload.left_out import LeftOut
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.typed_rows import typed_rows, undecoded
from tidemill.payload.untimed_rows import UntimedRows
from tidemill.sinks.table_columns import table_columns
from tidemill.sources.joined_tables import read_tables
from tidemill.spec.project import Pipeline


@dataclass(frozen=True)
class Flow:
    """Input and result of a pipeline.

    Args:
        frame: Rows for the sinks, or undecoded records if `before` is set.
        arrow_schema: Columns of the rows for the sinks.
        before: Decoding or sifting that the arrow writer runs in its own pass.
        origin: Proven origin of a stream's rows.
        findings: Parts of the transform that a stream does not support, and notes for the operator.
    """

    frame: DataFrame
    arrow_schema: pa.Schema
    before: Stage | None = None
    origin: RowOrigin = field(default_factory=RowOrigin)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class Collectors:
    """Receivers of all results of the decoding tasks that do not become rows.

    Args:
        quarantine: Receives records that cannot be decoded.
        late_rows: Sets late rows aside; None if they stay in the flow.
        discovered: Columns of each stream that discovers them, by stream name; collects new columns.
        left_out: Records that are not decoded, because the transform fails on them.
        file_columns: Collect the names in the files of each stream, by stream name.
        untimed: Counts rows without an event time; None if they are not counted.
        file_records: Count the file records of each stream, by stream name.
    """

    quarantine: Quarantine
    late_rows: LateRows | None = None
    discovered: Mapping[str, DiscoveredColumns] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)
    file_columns: Mapping[str, Accumulator[FileColumns]] = field(default_factory=dict)
    untimed: UntimedRows | None = None
    file_records: Mapping[str, Accumulator[int]] = field(default_factory=dict)

    def of_stream(self, name: str) -> Collectors:
        """Return the collectors for the stream of this name alone."""
        found = {SOURCE_NAME: self.discovered[name]} if name in self.discovered else {}
        names = {SOURCE_NAME: self.file_columns[name]} if name in self.file_columns else {}
        counter = {SOURCE_NAME: self.file_records[name]} if name in self.file_records else {}
        return replace(
            self,
            quarantine=replace(self.quarantine, stream=name),
            discovered=found,
            file_columns=names,
            file_records=counter,
            untimed=None if self.untimed is None else replace(self.untimed, stream=name),
        )


def build_flow(
    pipeline: Pipeline,
    streams: Mapping[str, DataFrame],
    collectors: Collectors,
    joined: Joined | None = None,
) -> Flow:
    """Return the rows for the sinks, lazily.

    Args:
        pipeline: The pipeline.
        streams: DataFrame of each stream, by name.
        collectors: Receive all results that do not become rows.
        joined: Contents of joined tables and folders, instead of the newest ones.
    """
    if decodes_while_writing(pipeline):
        records = streams[SOURCE_NAME]
        decoding = _decoding(pipeline, records, replace(collectors, late_rows=None))
        if decoding is not None:
            if pipeline.spec.event_time is not None:
                check_event_time(pipeline, pipeline.spec.event_time, _decoded(records, decoding))
            return Flow(records, decoding.arrow_schema, decoding.stage, plain_origin(pipeline))
    rows = {
        name: decoded_rows(stream, streams[name], collectors.of_stream(name))
        for name, stream in pipeline.streams.items()
    }
    return flow_of(pipeline, rows, joined)


def decoded_rows(pipeline: Pipeline, records: DataFrame, collectors: Collectors) -> DataFrame:
    """Return the transform's input for one stream, lazily."""
    decoding = _decoding(pipeline, records, collectors)
    event_time, untimed = pipeline.spec.event_time, collectors.untimed
    if untimed is not None and event_time is not None:
        door = decoding or undecoded(records.schema)
        decoding = replace(door, stage=lambda rows: untimed.pass_on(door.stage(rows), event_time.column))
    return records if decoding is None else _decoded(records, decoding)


def flow_of(pipeline: Pipeline, rows: Mapping[str, DataFrame], joined: Joined | None = None) -> Flow:
    """Return the flow for decoded rows, streams or batches, by name."""
    some, read = next(iter(rows.values())), joined or Joined()
    spark = some.sparkSession
    tables = read_tables(spark, pipeline, read.tables) | read_joined_files(spark, pipeline, read.files)
    calls = CallSites(pipeline.environment.project.transforms)
    result = apply_transform(pipeline, rows, tables, calls)
    columns = table_columns(result.schema)
    if not some.isStreaming:
        return Flow(result, columns)
    origin = _origin(pipeline, rows, result)
    findings = check_stream(pipeline, rows, result, calls, origin.window)
    sinks = dict(sink_origins(pipeline, result))
    return Flow(result, columns, origin=origin.model_copy(update={"sinks": sinks}), findings=findings)


def _origin(pipeline: Pipeline, rows: Mapping[str, DataFrame], result: DataFrame) -> RowOrigin:
    if pipeline.spec.has_named_streams:
        return origin_of_several(result)
    event_time = pipeline.spec.event_time
    if pipeline.spec.transform is None:
        return plain_origin(pipeline)
    return find_origin(rows[SOURCE_NAME], result, None if event_time is None else event_time.column)


def _decoding(pipeline: Pipeline, records: DataFrame, collectors: Collectors) -> Decoding | None:
    decoding = _decoding_of_all(pipeline, records, collectors)
    left_out, quarantine = collectors.left_out, collectors.quarantine
    if decoding is None or not left_out.reasons:
        return decoding
    return replace(decoding, stage=lambda batches: decoding.stage(left_out.stage(batches, quarantine)))


def _decoding_of_all(pipeline: Pipeline, records: DataFrame, collectors: Collectors) -> Decoding | None:
    source = pipeline.spec.source
    if not source.has_device_columns:
        return _door(pipeline, records.schema, collectors)
    columns = device_schema(records.schema, headers=source.chosen.headers)
    door = _door(pipeline, columns, collectors) or undecoded(columns)
    # One pass: headers become columns, and records are decoded.
    return Decoding(lambda batches: door.stage(device_records(batches)), door.arrow_schema)


def _door(pipeline: Pipeline, records: StructType, collectors: Collectors) -> Decoding | None:
    quarantine, late_rows = collectors.quarantine, collectors.late_rows
    if pipeline.spec.source.files is not None:
        discovered, names = collectors.discovered.get(SOURCE_NAME), collectors.file_columns.get(SOURCE_NAME)
        reads = file_reader(pipeline, discovered, names)
        counter = collectors.file_records.get(SOURCE_NAME)
        return file_decoding(pipeline, reads, quarantine, late_rows, counter)
    payload = pipeline.spec.payload
    if payload is not None:
        return payload_decoding(pipeline, payload, quarantine, late_rows)
    if not pipeline.spec.sets_aside:
        return None
    return typed_rows(pipeline, records, quarantine, late_rows)


def decodes_while_writing(pipeline: Pipeline) -> bool:
    """Return True if decoding and writing are one pass, because the pipeline only appends decoded records."""
    spec = pipeline.spec
    # A watermark needs columns, which records have only after decoding.
    if spec.transform is not None or spec.keeps_late or len(spec.sinks) != 1:
        return False
    sink = spec.sinks[0].delta
    if sink is None or sink.transform is not None or sink.where is not None or sink.expectations:
        return False
    return sink.writer_and_reason[0] == "arrow"


def _decoded(records: DataFrame, decoding: Decoding) -> DataFrame:
    return map_in_arrow(_in_few_tasks(records), decoding.stage, decoding.spark_schema)


def _in_few_tasks(records: DataFrame) -> DataFrame:
    """Use as many tasks as cores, because more tasks only add runs of Python workers and files.

    With executors, the number of cores is that of all executors together (kubernetes_conf.py). Spark adds
    executors while tasks wait.
    """
    return records.coalesce(records.sparkSession.sparkContext.defaultParallelism)
