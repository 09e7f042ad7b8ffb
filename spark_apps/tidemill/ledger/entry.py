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
    """What a batch read of one source: Spark's offset documents, `start` exclusive of the batch before.

    Args:
        start: Where it began.
        end: Where it ended.
        topic_ids: Id that the broker gave each topic when it was made; without topics whose id it does not
            tell. Offsets say nothing about a topic of the same name and another id.
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
        uri: Where it was declared to be found.
        version: Its version in the registry; None of a folder.
        digest: Of its files.
    """

    model_config = ConfigDict(frozen=True)

    uri: str
    version: str | None = None
    digest: str

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        return f"{self.uri}{version} {self.digest[:19]}"


class Code(BaseModel):
    """What ran.

    Args:
        tidemill: Its version.
        digest: Of the transform and schema files, and of the models as they are declared.
        spec: Digest of the declaration.
        rules: Digest of all that decides what becomes of a record: the files, payload, event time, sinks.
        models: Those that the transform applied, by name; None if it applied none, or no driver ran.
    """

    model_config = ConfigDict(frozen=True)

    tidemill: str
    digest: str
    spec: str
    rules: str = ""
    models: dict[str, UsedModel] | None = None


class _Known(BaseModel):
    """What an entry lacks was not known when it was written; what is empty was not declared."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_serializer(mode="wrap")
    def _what_is_known(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """An entry that carries another one's shape over knows no more than that one."""
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}


class SinkShape(_Known):
    """How one sink takes the result."""

    mode: str = ""
    key: tuple[str, ...] = ()
    cdc: str = ""
    where: str = ""
    transform: str = ""


class StreamShape(_Known):
    """What one stream is declared like.

    Args:
        source: Kind of the source.
        event_time: Column of the watermark.
        path: Folder of a files source.
        format: Format of its files; `changes` of a table whose change feed is read.
        columns: Their columns.
        payload: How the records of a topic are decoded.
        watermark: How late an event may be.
        window: Length of the result's windows, as it is declared.
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
    """What of the declaration checkpoint and tables depend on: Spark goes on with the old one, or wrongly.

    Args:
        output_mode: Spark's.
        shuffle_partitions: Partitions of stateful operators.
        tables: Tables that are written.
        sinks: By name.
        streams: Each of several streams, by name; then the shape's own values say nothing of a stream.
    """

    output_mode: str
    shuffle_partitions: int
    tables: tuple[str, ...] = ()
    sinks: dict[str, SinkShape] = {}
    streams: dict[str, StreamShape] = {}

    def of_stream(self, name: str) -> Shape | None:
        """What concerns one of several streams; None if it was not declared."""
        stream = self.streams.get(name)
        if stream is None:
            return None
        known = {key: getattr(stream, key) for key in stream.model_fields_set}
        whole = {
            key: getattr(self, key) for key in self.model_fields_set - {"streams", *StreamShape.model_fields}
        }
        return Shape(**known, **whole)


class ExpectationCounts(BaseModel):
    """What became of the rows of one commit by the expectations of its table.

    Args:
        checked: Rows, of which `dropped` and `quarantined` were not written.
        dropped: Rows that were left out.
        quarantined: Rows that went to the quarantine; one that is to be dropped, too, counts here only.
        violations: Rows that violate each expectation, by its name; a row may count several times.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    checked: int
    dropped: int = 0
    quarantined: int = 0
    violations: dict[str, int] = {}

    @property
    def written(self) -> int:
        """Rows that the table was given."""
        return self.checked - self.dropped - self.quarantined


class FilesRead(BaseModel):
    """The files of a joined folder that a batch was made with.

    Args:
        digest: Of their listing (paths, sizes and modification times), under which it is kept.
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
    """What one commit did. `rows` and `event_time` are unknown beforehand to Spark's writer.

    Mode `base` is of a verb, not of a driver: with this commit the generation begins, and the table stands
    after `batch_id`. What it says of sources, shape and watermark is that of the batch; `run_id` is the
    verb's request.

    `quarantined_rows` and `late_rows` are the batch's, the same in the entry of each of its outputs;
    `expectations` are of the rows of its own output; `set_aside` has, by output, a digest of the rows that
    they send to the quarantine, the same in each entry of the batch.
    `no_event_time_rows` are rows that were read without an event time, where windows drop them; like the
    former two, they are in no table.
    `plan` is the digest of a backfill's plan, `chunk` the number of its chunk, from 0.
    `published` names the attempt of a backfill whose staged rows the commit brought in, all at once.
    `tables_read` has the version of each table that the batch was joined with, by the source's name.
    `files_read` has the files of each folder that it was joined with, likewise.
    `source_schemas` names the version of the columns of each stream that discovers them.
    `poison_records` names the records, `topic-partition-offset`, that the batch leaves out because the
    transform fails at them.
    `columns_added` names the columns that the commit added to its table.
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
        """Delta's transaction id and version of the commit; None of one that belongs to no batch."""
        if self.generation is None or self.batch_id is None:
            return None
        return transaction_id(self.pipeline, self.generation, self.output), self.batch_id

    @property
    def joined(self) -> Joined:
        """Contents of the tables and folders that the batch was joined with."""
        return Joined(tables=self.tables_read or {}, files=self.files_read or {})

    @property
    def ends(self) -> dict[str, Any]:
        """End offset document of each source."""
        return {name: read.end for name, read in self.sources.items()}

    @property
    def topic_ids(self) -> dict[str, str]:
        """Ids that the topics had."""
        read = (source.topic_ids or {} for source in self.sources.values())
        return {topic: topic_id for ids in read for topic, topic_id in ids.items()}

    @property
    def cluster(self) -> str | None:
        """Whose offsets these are; None where nobody told."""
        return next((read.cluster for read in self.sources.values() if read.cluster), None)

    def with_joined(self, joined: Joined) -> LedgerEntry:
        """Return the entry of a batch that was joined with these contents; what is empty is left out."""
        return self.model_copy(
            update={"tables_read": joined.tables or None, "files_read": joined.files or None}
        )

    def to_text(self) -> str:
        """The text that goes into the commit."""
        return self.model_dump_json(exclude_none=True)


def parse_entry(text: object) -> LedgerEntry | None:
    """Read the text of a commit; None if Tidemill did not write it."""
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        return LedgerEntry.model_validate_json(text)
    except ValidationError:
        return None
