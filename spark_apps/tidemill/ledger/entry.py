"""The ledger entry: one JSON document in the `userMetadata` of each Delta commit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from tidemill.names import transaction_id

VERSION = 1

# {topic: {partition: offset}}, as Spark writes them; an end is exclusive.
Positions = dict[str, dict[str, int]]


class OffsetRange(BaseModel):
    """The range that a batch read of one source, as Spark's offset documents.

    Args:
        start: Start position: the exclusive end of the previous batch.
        end: End position, exclusive.
        topic_ids: Id that the broker gave each topic at its creation, for topics whose id the broker reports.
            Offsets are meaningless for a topic with the same name and another id.
        cluster: Id of the brokers' cluster, or the event hub with its namespace.
    """

    model_config = ConfigDict(frozen=True)

    start: Any = None
    end: Any = None
    topic_ids: dict[str, str] | None = None
    cluster: str | None = None


class UsedModel(BaseModel):
    """A model that a transform applied.

    Args:
        uri: Declared address.
        version: Its version in the registry; None for a folder.
        digest: Digest of its files.
    """

    model_config = ConfigDict(frozen=True)

    uri: str
    version: str | None = None
    digest: str

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        return f"{self.uri}{version} {self.digest[:19]}"


class Code(BaseModel):
    """The code that ran.

    Args:
        tidemill: Version of Tidemill.
        digest: Digest of the transform and schema files, and of the models as declared.
        spec: Digest of the declaration.
        rules: Digest of everything that decides the result for a record: files, payload, event time, sinks.
        models: Models that the transform applied, by name; None if it applied none, or no driver ran.
    """

    model_config = ConfigDict(frozen=True)

    tidemill: str
    digest: str
    spec: str
    rules: str = ""
    models: dict[str, UsedModel] | None = None


class _Known(BaseModel):
    """A model that distinguishes unknown fields (missing) from undeclared ones (empty)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_serializer(mode="wrap")
    def _what_is_known(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write only the known fields, so that a copied shape claims no more than the original."""
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}


class SinkShape(_Known):
    """The declaration of one sink."""

    mode: str = ""
    key: tuple[str, ...] = ()
    cdc: str = ""
    where: str = ""
    transform: str = ""


class StreamShape(_Known):
    """The declaration of one stream.

    Args:
        source: Kind of the source.
        event_time: Column of the watermark.
        path: Folder of a files source.
        format: Format of its files; `changes` for a table whose change feed is read.
        columns: Columns of the files.
        payload: Decoding of a topic's records.
        watermark: Maximum lateness of an event.
        window: Declared length of the result's windows.
    """

    source: str = ""
    event_time: str | None = None
    path: str = ""
    format: str = ""
    columns: str = ""
    payload: str = ""
    watermark: str = ""
    window: str = ""


class Shape(StreamShape):
    """The part of the declaration that checkpoint and tables depend on.

    After a change, Spark would ignore the new value, or produce wrong results.

    Args:
        output_mode: Spark's output mode.
        shuffle_partitions: Partitions of stateful operators.
        tables: Tables that are written.
        sinks: Sinks by name.
        streams: Each of several streams, by name; then the shape's own stream fields are unused.
    """

    output_mode: str
    shuffle_partitions: int
    tables: tuple[str, ...] = ()
    sinks: dict[str, SinkShape] = {}
    streams: dict[str, StreamShape] = {}

    def of_stream(self, name: str) -> Shape | None:
        """Return the shape of one of several streams; None if it was not declared."""
        stream = self.streams.get(name)
        if stream is None:
            return None
        known = {key: getattr(stream, key) for key in stream.model_fields_set}
        whole = {
            key: getattr(self, key) for key in self.model_fields_set - {"streams", *StreamShape.model_fields}
        }
        return Shape(**known, **whole)


class ExpectationCounts(BaseModel):
    """The effect of a table's expectations on the rows of one commit.

    Args:
        checked: Number of rows, including `dropped` and `quarantined` rows, which were not written.
        dropped: Number of rows that were left out.
        quarantined: Number of rows that went to the quarantine, even if another expectation drops them.
        violations: Number of rows that violate each expectation, by name; a row can count several times.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    checked: int
    dropped: int = 0
    quarantined: int = 0
    violations: dict[str, int] = {}

    @property
    def written(self) -> int:
        """Return the number of rows that were written to the table."""
        return self.checked - self.dropped - self.quarantined


class FilesRead(BaseModel):
    """The files of a joined folder that a batch was made with.

    Args:
        digest: Digest of the listing (paths, sizes and modification times), and the key under which it is
            stored.
        files: Number of files.
        bytes: Sum of their sizes.
    """

    model_config = ConfigDict(frozen=True)

    digest: str
    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.files:,} files, {self.bytes:,} bytes, {self.digest[:19]}"


class Joined(BaseModel):
    """Contents of the tables and folders that rows are joined with, by the source's name.

    Args:
        tables: Versions of Delta tables.
        files: Files of folders.
    """

    model_config = ConfigDict(frozen=True)

    tables: dict[str, int] = {}
    files: dict[str, FilesRead] = {}

    def differs_from(self, now: Joined) -> bool:
        """True if `now` has other contents of what is known here."""
        return any(now.tables.get(name, version) != version for name, version in self.tables.items()) or any(
            now.files.get(name, read) != read for name, read in self.files.items()
        )


class LedgerEntry(BaseModel):
    """The record of one commit. Spark's writer cannot know `rows` and `event_time` in advance.

    Mode `base` marks a commit that an operation made instead of a driver. The generation begins with this
    commit. `batch_id` is the last batch in the table, and sources, shape and watermark are those of this
    batch. `run_id` is the request id of the operation.

    `quarantined_rows` and `late_rows` count rows of the batch, so they are the same in the entry of each of
    its outputs. `expectations` counts rows of the entry's own output. `set_aside` has, by output, a digest of
    the rows that it sends to the quarantine; it is the same in each entry of the batch. `no_event_time_rows`
    counts rows without an event time that windows drop. Like the first two, these rows are in no table.

    `plan` is the digest of a backfill's plan, `chunk` the number of its chunk, from 0. `published` names the
    backfill attempt whose staged rows the commit added, all at once. `tables_read` has the version of each
    table that the batch was joined with, by source name, and `files_read` the files of each joined folder.
    `source_schemas` names the version of the columns of
    each stream that discovers them. `poison_records` names the records, as `topic-partition-offset`, that the
    batch leaves out because the transform fails for them. `columns_added` names the columns that the commit
    added to its table.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = VERSION
    pipeline: str
    output: str
    mode: Literal["stream", "incremental", "backfill", "base"]
    run_id: str
    plan: str | None = None
    chunk: int | None = None
    published: str | None = None
    generation: str | None = None
    query_id: str | None = None
    epoch: int | None = None
    batch_id: int | None = None
    sources: dict[str, OffsetRange] = {}
    tables_read: dict[str, int] | None = None
    files_read: dict[str, FilesRead] | None = None
    source_schemas: dict[str, str] | None = None
    rows: int | None = None
    quarantined_rows: int | None = None
    late_rows: int | None = None
    no_event_time_rows: int | None = None
    expectations: ExpectationCounts | None = None
    set_aside: dict[str, str] | None = None
    poison_records: tuple[str, ...] | None = None
    columns_added: tuple[str, ...] | None = None
    watermark: datetime | None = None
    event_time: dict[Literal["min", "max"], datetime] | None = None
    code: Code
    shape: Shape | None = None

    @property
    def transaction(self) -> tuple[str, int] | None:
        """Return Delta's transaction id and version of the commit; None if it belongs to no batch."""
        if self.generation is None or self.batch_id is None:
            return None
        return transaction_id(self.pipeline, self.generation, self.output), self.batch_id

    @property
    def joined(self) -> Joined:
        """Contents of the tables and folders that the batch was joined with."""
        return Joined(tables=self.tables_read or {}, files=self.files_read or {})

    @property
    def ends(self) -> dict[str, Any]:
        """Return the end offset document of each source."""
        return {name: read.end for name, read in self.sources.items()}

    @property
    def topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics."""
        read = (source.topic_ids or {} for source in self.sources.values())
        return {topic: topic_id for ids in read for topic, topic_id in ids.items()}

    @property
    def cluster(self) -> str | None:
        """Return the cluster of the offsets; None if it is unknown."""
        return next((read.cluster for read in self.sources.values() if read.cluster), None)

    def with_joined(self, joined: Joined) -> LedgerEntry:
        """Return the entry of a batch that was joined with these contents; what is empty is left out."""
        return self.model_copy(
            update={"tables_read": joined.tables or None, "files_read": joined.files or None}
        )

    def to_text(self) -> str:
        """Return the text that goes into the commit."""
        return self.model_dump_json(exclude_none=True)


def parse_entry(text: object) -> LedgerEntry | None:
    """Parse the text of a commit; return None if Tidemill did not write it."""
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        return LedgerEntry.model_validate_json(text)
    except ValidationError:
        return None
