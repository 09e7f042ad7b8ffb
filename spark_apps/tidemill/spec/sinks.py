"""The sinks of a pipeline: `sinks: [{<kind>: {...}}, ...]`."""

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


class DeltaSink(Strict):
    """A Delta table, written exactly once."""

    table: TableName
    mode: Annotated[Literal["append", "merge", "replace", "scd1", "scd2"], _mode_of("delta")] = Field(
        "append",
        description="append: rows never change. merge: a row replaces the row with the same key. replace: "
        "each batch writes the whole result. scd1, scd2: the result is a change feed. scd1 keeps the newest "
        "row of each key (with `_deleted_at` null). scd2 keeps every row of each key, with `valid_from`, "
        "`valid_to` and `is_current`.",
    )
    key: list[TableColumn] = Field(
        [],
        description="Columns that identify a row. Required for merge, scd1 and scd2. With `on_invalid: "
        "quarantine`, a row with a null key column goes to the quarantine (`null_key:<column>`). Otherwise "
        "the driver ends with TIDE-SINK-022. It also ends so if rows of a topic do not keep the columns "
        "kafka_topic, kafka_partition and kafka_offset, which locate the record.",
    )
    cdc: ChangeFeed | None = Field(
        None, description="How the change feed is read. Required for scd1 and scd2."
    )
    time: TableColumn | None = Field(
        None,
        description="Column with the time of a row. Default: the event-time column. For windowed results it "
        "is the window's start. It is detected in the transform, and a value here must agree with it.",
    )
    change_feed: bool = Field(
        False,
        description="If true, the table is created with a change data feed, for `read_changes` of a delta "
        "source. For an existing table, set its property delta.enableChangeDataFeed.",
    )
    partition_by: list[TableColumn] = Field(
        [],
        description="Partition columns. With merge, scd1 and scd2 their names must not contain a dot.",
    )
    cluster_by: list[TableColumn] = Field(
        [],
        description="Columns for liquid clustering. `a.b` is the column with this name if there is one, "
        "otherwise the field b of the struct a.",
    )
    writer: Literal["arrow", "spark"] | None = Field(
        None, description="Writer of the table. Default: arrow if it can write the table, else spark."
    )
    schema_evolution: Literal["none", "add_columns"] = Field(
        "none",
        description="Handling of result columns that the table lacks. none: the start is refused. "
        "add_columns: the first batch with more columns, also within structs, adds them to the table, and "
        "they are null in older rows. A column that was removed, renamed or has another type is refused in "
        "both cases. Not for scd1 and scd2.",
    )
    transform: SinkTransform = None
    where: Where = None
    expectations: dict[ExpectationName, Expectation] = Field(
        {},
        max_length=MAX_EXPECTATIONS,
        description="Conditions that each row must fulfil after `transform` and `where`, by name. For each "
        "commit, the ledger has the number of rows that were checked, dropped and quarantined, and the "
        "violations by name. A row that violates several goes to the quarantine if one of them has "
        "`on_violation: quarantine`. Mode merge allows only warn and fail, because leaving a row out would "
        "keep "
        "an older row of its key. Mode replace does not allow quarantine, because each batch writes the "
        "whole "
        "result again. Modes scd1 and scd2 have no expectations, because their rows are changes. To "
        "quarantine "
        "rows of a topic, the table needs the columns kafka_topic, kafka_partition and kafka_offset.",
    )
    options: DeltaSinkOptions = Field(
        {}, description="Delta's write options. They need the spark writer, and a merge has none."
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
        """Return True if rows that violate an expectation go to the quarantine."""
        return any(expectation.on_violation == "quarantine" for expectation in self.expectations.values())

    @property
    def named_columns(self) -> dict[str, list[str]]:
        """Return the columns that the declaration names, by key, without those that the table adds."""
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
        """Return True if a key identifies rows."""
        return self.mode in ("merge", *get_args(ScdMode))

    @property
    def needs_spark_writer(self) -> str:
        """Return why only Spark's Delta writer can write this table; empty if the arrow writer can."""
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
        """Return True if the table accepts new columns."""
        return self.schema_evolution == "add_columns"

    @property
    def writer_and_reason(self) -> tuple[Literal["arrow", "spark"], str]:
        """Return the writer and the reason for choosing it."""
        if self.writer is not None:
            return self.writer, "named in the pipeline file"
        if self.needs_spark_writer:
            return "spark", self.needs_spark_writer
        return "arrow", "a plain append"


class KafkaSink(Strict):
    """A topic of the environment's Kafka brokers, written at least once.

    A repeated batch sends its rows again.
    """

    topic: Topic = Field(description="Topic to write to. It must exist.")
    key: Column | None = Field(None, description="Column that becomes the record key.")
    mode: FollowedMode = None
    transform: SinkTransform = None
    where: Where = None
    options: KafkaSinkOptions = Field({}, description="Options of the Kafka producer.")


class FilesSink(Strict):
    """Files in a folder, written exactly once for readers that use Spark's log of the folder."""

    path: Folder = Field(
        description="Folder, relative to the storage root, or a URI. Nothing else may write there. Readers "
        "that use Spark's log `_spark_metadata` see all of a batch or nothing of it."
    )
    format: Literal["parquet", "json", "csv", "orc"] = Field(description="Format of every file.")
    partition_by: list[Column] = Field([], description="Columns that become folders, such as a date.")
    mode: Annotated[Literal["append"], _mode_of("files")] = Field(
        "append", description="Only final rows are written, because a file cannot be taken back."
    )
    transform: SinkTransform = None
    where: Where = None
    options: FilesSinkOptions = Field({}, description="Spark's write options of the format.")

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
    """Rows of a PostgreSQL table by key, written exactly once.

    A row replaces the row with the same key. One transaction writes a batch and its number, which is in the
    table `tidemill_batches` of the same schema. A batch with two rows of one key is refused; choose one in
    `transform`.
    """

    connection: SecretName = Field(
        description="Name of the secret with the connection string: a URI or libpq's `host=… dbname=…`."
    )
    table: str = Field(
        pattern=DATABASE_TABLE_PATTERN,
        description="Table as <schema>.<name>. It must exist and have all columns that are written.",
    )
    key: list[Column] = Field(
        min_length=1,
        description="Columns that identify a row. The table needs a primary key or unique index on exactly "
        "these columns.",
    )
    delete_where: Expression | None = Field(
        None,
        description="SQL condition on the columns. If a row fulfils it, the table's row with that key is "
        "deleted. Null counts as false.",
    )
    except_columns: list[Column] = Field(
        [], description="Columns that are not written, such as the operation that delete_where reads."
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
    """The driver's standard output, for experiments."""

    mode: FollowedMode = None
    rows: Count = Field(20, description="Maximum number of rows to print of each batch.")
    transform: SinkTransform = None
    where: Where = None


class MemorySink(Strict):
    """A table in the driver's memory, for tests and experiments. It is lost when the driver ends.

    In the driver's session, Spark SQL reads it by its name. `tidemill query` reads it as `memory.<name>` from
    the running driver. With mode complete it holds the newest result, otherwise the rows of all batches since
    the driver started.
    """

    name: str = Field(pattern=SOURCE_NAME_PATTERN, description="Name of the table in SQL.")
    mode: FollowedMode = None
    max_rows: Count = Field(
        100_000,
        description="Maximum number of rows in the table. A batch that exceeds it stops the pipeline.",
    )
    transform: SinkTransform = None
    where: Where = None


class ForeachSink(Strict):
    """A custom row writer, at least once: a class with `process(row)` and optionally `open` and `close`.

    Each task creates an instance and calls `open(partition_id, batch_id)`, which returns true if the rows are
    wanted, then `process(row)` for each row, then `close(error)`. A repeated batch has the same number and
    the same rows, but they may be in other partitions. To write each row once, replace rows by key.
    """

    writer: str = Field(pattern=CODE_PATTERN, description="file:Class in spark_apps/transforms.")
    mode: FollowedMode = None
    transform: SinkTransform = None
    where: Where = None


class ForeachBatchSink(Strict):
    """A custom function `def write(rows, token)`, called for each batch at least once.

    After a crash, a batch is repeated with the same rows and the same token. The token's `stream` names the
    pipeline and the checkpoint, and its `batch_id` the batch. To write the rows once, replace rows by key, or
    let `token.once(connection)` store the token in the transaction that writes them. After a rewind, a reset
    or a restore, the stream has another name, and the function gets the rows that are read again.
    """

    function: str = Field(
        pattern=CODE_PATTERN,
        description="file:function in spark_apps/transforms, `def write(rows: DataFrame, token: BatchToken) "
        "-> None` (tidemill.sinks.batch_token). It runs on the driver after the tables are written.",
    )
    mode: FollowedMode = None
    transform: SinkTransform = None
    where: Where = None


# Output mode of the result that each mode of a sink needs.
_OUTPUT_MODE_OF: dict[str | None, OutputMode | None] = {
    None: None,
    "append": "append",
    "merge": "update",
    "replace": "complete",
    # A change feed with each change once.
    "scd1": "append",
    "scd2": "append",
    "update": "update",
    "complete": "complete",
}


class Sink(OneOf):
    """Exactly one kind of sink."""

    delta: DeltaSink | None = Field(None, description="A Delta table, exactly once.")
    kafka: KafkaSink | None = Field(None, description="A topic, at least once.")
    files: FilesSink | None = Field(
        None, description="Files in a folder, exactly once for readers that use Spark's log of it."
    )
    postgres: PostgresSink | None = Field(
        None, description="Rows of a PostgreSQL table by key, exactly once."
    )
    foreach_batch: ForeachBatchSink | None = Field(
        None, description="A custom function for each batch, at least once."
    )
    foreach: ForeachSink | None = Field(None, description="A custom row writer, at least once.")
    console: ConsoleSink | None = Field(None, description="The driver's output, for experiments.")
    memory: MemorySink | None = Field(None, description="A table in the driver's memory, for experiments.")

    @property
    def named_columns(self) -> Mapping[str, Sequence[str]]:
        """Return the columns that the declaration names, by key."""
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
        """Return the declaration's SQL conditions on rows, by key."""
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
        """Return the destination in a word or two."""
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
        """Return the sink's name in ledger entries, status and metrics."""
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
        """Return the class or function that gets the rows, if any."""
        if self.foreach is not None:
            return self.foreach.writer
        return None if self.foreach_batch is None else self.foreach_batch.function

    @property
    def output_mode(self) -> OutputMode | None:
        """Return the output mode that the sink needs; None if it accepts any."""
        return _OUTPUT_MODE_OF[self.chosen.mode]
