"""The sinks of a pipeline: `sinks: [{<kind>: {...}}, ...]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tidemill.spec.capabilities import OutputMode
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.location import Folder
from tidemill.spec.options import FilesSinkOptions, KafkaSinkOptions
from tidemill.spec.sink_keys import FollowedMode, SinkTransform, Where, supported_mode
from tidemill.spec.strict import OneOf, Strict
from tidemill.spec.text import (
    CODE_PATTERN,
    DATABASE_TABLE_PATTERN,
    SOURCE_NAME_PATTERN,
    Column,
    Expression,
    SecretName,
    Topic,
)
from tidemill.spec.units import Count


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
    mode: Annotated[Literal["append"], supported_mode("files")] = Field(
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
    mode: Annotated[FollowedMode, supported_mode("postgres")] = None
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
