"""A sink that writes a Delta table: `delta: {table, mode, key, …}`."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from tidemill.spec.change_feed import OWN_COLUMNS, ChangeFeed, ScdMode
from tidemill.spec.expectations import MAX_EXPECTATIONS, Expectation, ExpectationName
from tidemill.spec.options import DeltaSinkOptions
from tidemill.spec.sink_keys import SinkTransform, Where, supported_mode
from tidemill.spec.strict import Strict
from tidemill.spec.text import TableColumn, TableName


class DeltaSink(Strict):
    """A Delta table, written exactly once."""

    table: TableName
    mode: Annotated[Literal["append", "merge", "replace", "scd1", "scd2"], supported_mode("delta")] = Field(
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
        "keep an older row of its key. Mode replace does not allow quarantine, because each batch writes the "
        "whole result again. Modes scd1 and scd2 have no expectations, because their rows are changes. To "
        "quarantine rows of a topic, the table needs the columns kafka_topic, kafka_partition and "
        "kafka_offset.",
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
