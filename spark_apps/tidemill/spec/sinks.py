"""Where a pipeline writes: `sinks: [{<kind>: {...}}, ...]`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tidemill.names import TABLE_PATTERN
from tidemill.spec.location import Folder
from tidemill.spec.options import DeltaSinkOptions, FilesSinkOptions, KafkaSinkOptions
from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import TRANSFORM_PATTERN, Column, Expression, Topic
from tidemill.spec.units import Count

Where = Annotated[
    Expression | None,
    Field(
        description="SQL condition on the columns that are written: the result's, or those that the sink's "
        "own `transform` gives; only matching rows are written."
    ),
]
SinkTransform = Annotated[
    str | None,
    Field(
        pattern=TRANSFORM_PATTERN,
        description="file:function in spark_apps/transforms, a function DataFrame -> DataFrame without state "
        "that shapes the rows of each batch for this sink: latest per key before a merge, flattening, a "
        "second projection. It is given the pipeline's result, and `where` selects from what it gives. Or "
        "file.sql there: one query over `result`.",
    ),
]


class DeltaSink(Strict):
    """A Delta table, written exactly once."""

    table: Annotated[str, Field(pattern=f"^{TABLE_PATTERN}$", description="Table as <zone>/<name>.")]
    mode: Literal["append", "merge", "replace"] = Field(
        "append",
        description="append: rows never change. merge: a row replaces the one with the same key. "
        "replace: each batch writes the whole result.",
    )
    key: list[Column] = Field([], description="Columns that identify a row; required for merge.")
    time: Column | None = Field(
        None,
        description="Column that says when a row happened; by default the event-time column. Of windows it "
        "is their start, which is found in the transform; what is written here must agree.",
    )
    partition_by: list[Column] = Field([], description="Columns to partition the table by.")
    cluster_by: list[Column] = Field([], description="Columns for liquid clustering.")
    writer: Literal["arrow", "spark"] | None = Field(
        None, description="Writer to use instead of the one chosen by what the table needs."
    )
    transform: SinkTransform = None
    where: Where = None
    options: DeltaSinkOptions = Field(
        {}, description="Delta's own write options; they need the spark writer. A merge knows none."
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if (self.mode == "merge") != bool(self.key):
            raise ValueError(
                "`key` names the columns that identify a row: merge needs it, other modes refuse it"
            )
        if self.mode == "merge" and self.options:
            raise ValueError("a merge would ignore `options` in silence: Delta's MERGE takes none")
        if self.partition_by and self.cluster_by:
            raise ValueError(
                "a table is partitioned or clustered, not both: choose partition_by or cluster_by"
            )
        for name in ("key", "partition_by", "cluster_by"):
            columns = getattr(self, name)
            if len({column.lower() for column in columns}) < len(columns):
                raise ValueError(
                    f"a column stands twice in `{name}`; Spark does not tell columns apart by case"
                )
        needs = self.needs_spark_writer
        if self.writer == "arrow" and needs:
            raise ValueError(f"the arrow writer cannot be used here: {needs}")
        return self

    @property
    def needs_spark_writer(self) -> str:
        """Why only Spark's Delta writer can write this table; empty if the arrow writer can."""
        if self.mode != "append":
            return f"mode {self.mode} changes rows that exist"
        if self.cluster_by:
            return "cluster_by is a table feature that delta-rs does not write"
        if self.partition_by:
            return "partition_by splits each batch by value"
        if self.options:
            return "options are Spark's own"
        return ""

    @property
    def writer_and_reason(self) -> tuple[Literal["arrow", "spark"], str]:
        """Which writer is used, and why."""
        if self.writer is not None:
            return self.writer, "named in the pipeline file"
        if self.needs_spark_writer:
            return "spark", self.needs_spark_writer
        return "arrow", "a plain append"


class KafkaSink(Strict):
    """A topic of the environment's Kafka brokers; at least once: a repeated batch sends its rows again."""

    topic: Topic = Field(description="Topic to write to; it must exist.")
    key: Column | None = Field(None, description="Column that becomes the record key.")
    transform: SinkTransform = None
    where: Where = None
    options: KafkaSinkOptions = Field({}, description="The Kafka producer's own options.")


class FilesSink(Strict):
    """Files in a folder, each batch once for all who read it through Spark's log of the folder."""

    path: Folder = Field(
        description="Folder of this sink alone, relative to the storage root, or a URI. Spark reads it as a "
        "whole by its log `_spark_metadata`: all of a batch or none."
    )
    format: Literal["parquet", "json", "csv", "orc"] = Field(description="Format of every file.")
    partition_by: list[Column] = Field([], description="Columns that become folders, such as a date.")
    transform: SinkTransform = None
    where: Where = None
    options: FilesSinkOptions = Field({}, description="Spark's own write options of the format.")

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if any(character in self.path for character in "*?[]{}"):
            raise ValueError("`path` of a sink is one folder; a pattern is for reading")
        if len({column.lower() for column in self.partition_by}) < len(self.partition_by):
            raise ValueError(
                "a column stands twice in `partition_by`; Spark does not tell columns apart by case"
            )
        return self


class ConsoleSink(Strict):
    """The driver's standard output, for trying out."""

    mode: Literal["append", "update", "complete"] | None = Field(
        None,
        description="What of the result each batch shows. append: rows that do not change any more. update: "
        "those that changed. complete: all of it. By default as the pipeline's tables need it, and append "
        "without a table.",
    )
    rows: Count = Field(20, description="Most rows shown of each batch.")
    transform: SinkTransform = None
    where: Where = None


class Sink(OneOf):
    """Exactly one kind of sink."""

    delta: DeltaSink | None = Field(None, description="A Delta table, exactly once.")
    kafka: KafkaSink | None = Field(None, description="A topic, at least once.")
    files: FilesSink | None = Field(None, description="Files in a folder, exactly once by Spark's log of it.")
    console: ConsoleSink | None = Field(None, description="The driver's output, for trying out.")
