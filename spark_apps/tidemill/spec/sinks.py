"""Where a pipeline writes: `sinks: [{<kind>: {...}}, ...]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from tidemill.spec.capabilities import OutputMode, refusal_of
from tidemill.spec.change_feed import OWN_COLUMNS, ChangeFeed, ScdMode
from tidemill.spec.expectations import MAX_EXPECTATIONS, Expectation, ExpectationName
from tidemill.spec.location import Folder
from tidemill.spec.options import DeltaSinkOptions, FilesSinkOptions, KafkaSinkOptions
from tidemill.spec.refusal import Cell, RefusedError
from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import (
    CODE_PATTERN,
    DATABASE_TABLE_PATTERN,
    SOURCE_NAME_PATTERN,
    TRANSFORM_PATTERN,
    Column,
    Expression,
    SecretName,
    TableColumn,
    TableName,
    Topic,
)
from tidemill.spec.units import Count


def _mode_of(sink: str) -> BeforeValidator:
    """Refuses the modes that this kind of sink cannot have, with the reason and what to write instead."""

    def check(mode: object) -> object:
        refusal = refusal_of(Cell(sink=sink, mode=mode)) if isinstance(mode, str) else None
        if refusal is not None:
            raise RefusedError(refusal)
        return mode

    return BeforeValidator(check)


FollowedMode = Annotated[
    OutputMode | None,
    Field(
        description="What of the result each batch gives it. append: rows that do not change any more. "
        "update: "
        "those that changed. complete: all of it. By default as the pipeline's tables need it, and append "
        "without a table.",
    ),
]

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

    table: TableName
    mode: Annotated[Literal["append", "merge", "replace", "scd1", "scd2"], _mode_of("delta")] = Field(
        "append",
        description="append: rows never change. merge: a row replaces the one with the same key. "
        "replace: each batch writes the whole result. scd1, scd2: the result is a feed of changes by key; "
        "scd1 keeps the newest row of each key (where `_deleted_at` is null), scd2 every one with "
        "`valid_from`, `valid_to` and `is_current`.",
    )
    key: list[TableColumn] = Field(
        [],
        description="Columns that identify a row; required for merge, scd1 and scd2. A row that lacks one "
        "goes to the quarantine (`null_key:<column>`) where the pipeline has `on_invalid: quarantine`. Else "
        "the driver ends with TIDE-SINK-022, also if rows of a topic do not keep kafka_topic, "
        "kafka_partition and kafka_offset, which say where a record is.",
    )
    cdc: ChangeFeed | None = Field(
        None, description="How a feed of changes is read; required for scd1 and scd2."
    )
    time: TableColumn | None = Field(
        None,
        description="Column that says when a row happened; by default the event-time column. Of windows it "
        "is their start, which is found in the transform; what is written here must agree.",
    )
    change_feed: bool = Field(
        False,
        description="Make the table so that its changes can be read (`read_changes` of a delta source). Of a "
        "table that exists, set its property delta.enableChangeDataFeed.",
    )
    partition_by: list[TableColumn] = Field(
        [],
        description="Columns to partition the table by. With merge, scd1 and scd2 their names have no dot.",
    )
    cluster_by: list[TableColumn] = Field(
        [],
        description="Columns for liquid clustering. `a.b` is the column of this name, or else the field b of "
        "the struct a.",
    )
    writer: Literal["arrow", "spark"] | None = Field(
        None, description="Writer to use instead of the one chosen by what the table needs."
    )
    schema_evolution: Literal["none", "add_columns"] = Field(
        "none",
        description="What becomes of a table that lacks columns of the result. none: refused at the start. "
        "add_columns: the first batch with more columns, also inside of structs, adds them to the table; in "
        "older rows they are null. A column that is gone, renamed or of another type is refused with both. "
        "Not for scd1 and scd2.",
    )
    transform: SinkTransform = None
    where: Where = None
    expectations: dict[ExpectationName, Expectation] = Field(
        {},
        max_length=MAX_EXPECTATIONS,
        description="What each row is expected to fulfil, by name, after `transform` and `where`; not with "
        "scd1 and scd2, whose rows are changes. Of each commit the ledger counts the rows that were "
        "checked, dropped and quarantined, and the violations by name. A row that violates several "
        "goes to the quarantine if one of them says so. With merge only warn and fail: a row that is "
        "left out would let an older one of its key stand. With replace no quarantine: each batch "
        "writes the whole result again. Quarantine of a topic's rows needs the columns kafka_topic, "
        "kafka_partition and kafka_offset in the table.",
    )
    options: DeltaSinkOptions = Field(
        {}, description="Delta's own write options; they need the spark writer. A merge knows none."
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.merges != bool(self.key):
            raise ValueError(
                "`key` names the columns that identify a row: scd1, scd2 and merge need it, "
                "other modes refuse it"
            )
        if self.merges and self.options:
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
        dotted = next((name for name in self.partition_by if "." in name), None)
        if self.merges and dotted is not None:
            raise ValueError(
                f"Delta cannot merge into a table that is partitioned by {dotted}, because of the dot in its "
                "name: give the column another name in the transform, or name it in `cluster_by`"
            )
        needs = self.needs_spark_writer
        if self.writer == "arrow" and needs:
            raise ValueError(f"the arrow writer cannot be used here: {needs}")
        return self

    @model_validator(mode="after")
    def _feed_fits(self) -> Self:
        if (self.mode in get_args(ScdMode)) != (self.cdc is not None):
            raise ValueError(
                "`cdc` says how changes are ordered: scd1 and scd2 need it, other modes refuse it"
            )
        if self.cdc is None:
            return self
        if self.adds_columns:
            raise ValueError(
                "`schema_evolution` is not for scd1 and scd2: old rows would be compared by columns that "
                "they never had; write the changes into a new table"
            )
        dropped = {column.lower() for column in self.cdc.except_columns}
        for name in ("key", "partition_by", "cluster_by"):
            lost = [column for column in getattr(self, name) if column.lower() in dropped]
            if lost:
                raise ValueError(f"a column of `{name}` is among `except_columns`: {lost[0]}")
        fixed = {column.lower() for column in (*self.key, self.cdc.sequence_by)} | dropped
        for name in self.cdc.unchanged if isinstance(self.cdc.unchanged, dict) else ():
            if name.lower() in fixed:
                raise ValueError(
                    f"{name} of `unchanged` is in the key, the sequence or among `except_columns`: only a "
                    "column that the table keeps has an older value"
                )
        if self.mode == "scd2" and self.cdc.forget_deletes_after != "off":
            raise ValueError(
                "`forget_deletes_after` is for scd1: a history keeps its deletes, as they end its intervals"
            )
        return self

    @model_validator(mode="after")
    def _expectations_fit(self) -> Self:
        for name, expectation in self.expectations.items():
            wanted = expectation.on_violation
            if self.cdc is not None:
                raise ValueError(
                    f"expectation {name}: a table of mode {self.mode} is given changes, not its rows: a "
                    "deletion that is left out would let its row stand, and the row before an update would "
                    "be checked once more. Expect it of the table that the changes are made from"
                )
            if self.mode == "merge" and wanted in ("drop", "quarantine"):
                raise ValueError(
                    f"expectation {name}: `{wanted}` does not go with mode merge: a row that is left out "
                    "would let an older one of its key stand. Use warn or fail, or leave rows out in the "
                    "transform, before they are aggregated"
                )
            if self.mode == "replace" and wanted == "quarantine":
                raise ValueError(
                    f"expectation {name}: `quarantine` does not go with mode replace: each batch writes the "
                    "whole result, and would quarantine the same rows again. Use warn, drop or fail"
                )
        return self

    @property
    def quarantines(self) -> bool:
        """Whether rows that violate an expectation go to the quarantine."""
        return any(expectation.on_violation == "quarantine" for expectation in self.expectations.values())

    @property
    def named_columns(self) -> dict[str, list[str]]:
        """Columns of the rows that the declaration names, by key; not those that the table adds."""
        added = OWN_COLUMNS.get(self.mode, ())
        named = {
            name: [column for column in getattr(self, name) if column not in added]
            for name in ("key", "partition_by", "cluster_by")
        }
        if self.time is not None:
            named["time"] = [self.time]
        if self.cdc is not None:
            named |= {
                "cdc.sequence_by": [self.cdc.sequence_by],
                "cdc.except_columns": self.cdc.except_columns,
                "cdc.unchanged": list(self.cdc.unchanged) if isinstance(self.cdc.unchanged, dict) else [],
            }
        return named

    @property
    def merges(self) -> bool:
        """Whether rows are told by a key."""
        return self.mode in ("merge", *get_args(ScdMode))

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
    def adds_columns(self) -> bool:
        """Whether its table takes new columns."""
        return self.schema_evolution == "add_columns"

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
    mode: FollowedMode = None
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
    mode: Annotated[Literal["append"], _mode_of("files")] = Field(
        "append", description="Only rows that do not change any more: a file cannot be taken back."
    )
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


class PostgresSink(Strict):
    """Rows of a PostgreSQL table by key, exactly once: a row replaces the one with the same key.

    A batch is one transaction, together with the batch's number, which is kept in the table
    `tidemill_batches` of the same schema. A batch with two rows of one key is refused: choose one in
    `transform`.
    """

    connection: SecretName = Field(
        description="Name of the secret that holds the connection string: a URI or libpq's `host=… dbname=…`."
    )
    table: str = Field(
        pattern=DATABASE_TABLE_PATTERN,
        description="Table as <schema>.<name>; it must exist, with a column for each of the rows.",
    )
    key: list[Column] = Field(
        min_length=1,
        description="Columns that identify a row; the table has a primary key or unique index of just these.",
    )
    delete_where: Expression | None = Field(
        None,
        description="SQL condition on the columns; where it holds, the row with that key is deleted. Null "
        "counts as false.",
    )
    except_columns: list[Column] = Field(
        [], description="Columns that the table does not keep, such as the operation that delete_where reads."
    )
    mode: Annotated[FollowedMode, _mode_of("postgres")] = None
    transform: SinkTransform = None
    where: Where = None

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if len(set(self.key)) < len(self.key):
            raise ValueError("a column stands twice in `key`")
        if lost := set(self.key) & set(self.except_columns):
            raise ValueError(f"a column of `key` is among `except_columns`: {min(lost)}")
        return self


class ConsoleSink(Strict):
    """The driver's standard output, for trying out."""

    mode: FollowedMode = None
    rows: Count = Field(20, description="Most rows shown of each batch.")
    transform: SinkTransform = None
    where: Where = None


class MemorySink(Strict):
    """A table in the driver's memory, for tests and for trying out: gone when the driver ends.

    Spark's SQL knows it by its name, in the driver's session. On the command line it is `memory.<name>` for
    `tidemill query`, which asks the driver while it runs. With mode complete it holds the newest result, else
    the rows of all batches since the driver started.
    """

    name: str = Field(pattern=SOURCE_NAME_PATTERN, description="Name of the table in SQL.")
    mode: FollowedMode = None
    max_rows: Count = Field(
        100_000, description="Most rows that it holds; a batch that would bring more stops the pipeline."
    )
    transform: SinkTransform = None
    where: Where = None


class ForeachSink(Strict):
    """A row writer of your own, at least once: a class with `process(row)`, and `open` and `close` as needed.

    Each task makes one and calls `open(partition_id, batch_id)`, which says whether it wants the rows, then
    `process(row)` for each, then `close(error)`. A repeated batch has the same number and the same rows,
    but perhaps in other partitions: to write a row once, replace it by its key.
    """

    writer: str = Field(pattern=CODE_PATTERN, description="file:Class in spark_apps/transforms.")
    mode: FollowedMode = None
    transform: SinkTransform = None
    where: Where = None


class ForeachBatchSink(Strict):
    """A function of your own for each batch, `def write(rows, token)`; at least once.

    A batch that is repeated after a crash brings its rows again, with the same token: its `stream` names
    pipeline and checkpoint, its `batch_id` the batch. To write them once, replace rows by key, or let
    `token.once(connection)` keep the token in the transaction that writes them. After a rewind, a reset or a
    restore the stream is another one, and what is read again is handed over again.
    """

    function: str = Field(
        pattern=CODE_PATTERN,
        description="file:function in spark_apps/transforms, `def write(rows: DataFrame, token: BatchToken) "
        "-> "
        "None` (tidemill.sinks.batch_token). It runs on the driver, after the tables are written.",
    )
    mode: FollowedMode = None
    transform: SinkTransform = None
    where: Where = None


# What a sink's mode needs of the result.
_OUTPUT_MODE_OF: dict[str | None, OutputMode | None] = {
    None: None,
    "append": "append",
    "merge": "update",
    "replace": "complete",
    # A feed of changes, each once.
    "scd1": "append",
    "scd2": "append",
    "update": "update",
    "complete": "complete",
}


class Sink(OneOf):
    """Exactly one kind of sink."""

    delta: DeltaSink | None = Field(None, description="A Delta table, exactly once.")
    kafka: KafkaSink | None = Field(None, description="A topic, at least once.")
    files: FilesSink | None = Field(None, description="Files in a folder, exactly once by Spark's log of it.")
    postgres: PostgresSink | None = Field(
        None, description="Rows of a PostgreSQL table by key, exactly once."
    )
    foreach_batch: ForeachBatchSink | None = Field(
        None, description="A function of your own for each batch, at least once."
    )
    foreach: ForeachSink | None = Field(None, description="A row writer of your own, at least once.")
    console: ConsoleSink | None = Field(None, description="The driver's output, for trying out.")
    memory: MemorySink | None = Field(None, description="A table in the driver's memory, for trying out.")

    @property
    def named_columns(self) -> Mapping[str, Sequence[str]]:
        """Columns of the rows that the declaration names, by key."""
        if self.delta is not None:
            return self.delta.named_columns
        if self.kafka is not None:
            return {"key": [] if self.kafka.key is None else [self.kafka.key]}
        if self.files is not None:
            return {"partition_by": self.files.partition_by}
        if self.postgres is not None:
            return {"key": self.postgres.key, "except_columns": self.postgres.except_columns}
        return {}

    @property
    def conditions(self) -> Mapping[str, str]:
        """SQL conditions on the rows that the declaration has, by key."""
        feed = None if self.delta is None else self.delta.cdc
        found = {
            "where": self.chosen.where,
            "delete_where": None if self.postgres is None else self.postgres.delete_where,
            "cdc.apply_as_deletes": None if feed is None else feed.apply_as_deletes,
            "cdc.truncate": None if feed is None else feed.truncate,
        }
        return {key: condition for key, condition in found.items() if condition is not None}

    @property
    def place(self) -> str:
        """Where it writes to, in a word or two."""
        if self.delta is not None:
            return self.delta.table
        if self.kafka is not None:
            return f"topic {self.kafka.topic}"
        if self.files is not None:
            return f"files {self.files.path}"
        if self.memory is not None:
            return f"memory {self.memory.name}"
        if self.postgres is not None:
            return f"postgres {self.postgres.connection} {self.postgres.table}"
        return self.kind if self.code is None else f"{self.kind} {self.code}"

    @property
    def output(self) -> str:
        """Name of the sink in ledger entries, status and metrics."""
        if self.delta is not None:
            return self.delta.table
        if self.kafka is not None:
            return f"kafka:{self.kafka.topic}"
        if self.files is not None:
            return f"files:{self.files.path}"
        if self.memory is not None:
            return f"memory:{self.memory.name}"
        if self.postgres is not None:
            return f"postgres:{self.postgres.connection}:{self.postgres.table}"
        return self.kind if self.code is None else f"{self.kind}:{self.code}"

    @property
    def code(self) -> str | None:
        """The class or function that it hands rows to."""
        if self.foreach is not None:
            return self.foreach.writer
        return None if self.foreach_batch is None else self.foreach_batch.function

    @property
    def output_mode(self) -> OutputMode | None:
        """What it needs of the result; None if it takes what there is."""
        return _OUTPUT_MODE_OF[self.chosen.mode]
