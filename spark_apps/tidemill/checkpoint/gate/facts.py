"""What the gate knows before it decides: checkpoint, tables, source and declaration, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidemill.checkpoint.current import Accepted, Base
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.reading.log_files import CommitsFile, OffsetsFile
from tidemill.checkpoint.upgrade.version import PlannedVersion
from tidemill.ledger.entry import Positions, Shape, UsedModel
from tidemill.spec.state_store import StateStore


@dataclass(frozen=True)
class BatchLog:
    """One of the folders `offsets` and `commits`, as a listing shows it.

    Args:
        numbers: Its batches, rising.
        strays: Names that Spark would take for a batch's number although it never writes such, e.g. `007`.
        twins: Numbers of checksum files `.N.crc` whose `N` is not there.
        empty: Batches whose file has no content.
    """

    numbers: tuple[int, ...] = ()
    strays: tuple[str, ...] = ()
    twins: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()

    @property
    def last(self) -> int | None:
        """The newest batch."""
        return self.numbers[-1] if self.numbers else None


@dataclass(frozen=True)
class TableFacts:
    """What one table says of the pipeline's generation.

    Args:
        last_batch: Newest batch after which the table stands. None if it has none of the generation.
        begun: Whether the log shows the generation itself: a batch, or the commit with which a verb began it.
        query_id: Query that wrote the newest ledger entry of this generation.
        transaction: Newest batch that Delta holds for written, whatever became of its rows.
        ends: End offsets of the newest batches, by batch and name of the source.
        hole: Why older batches of the generation do not stand, although the newest one does.
        written_by: Generation that has written to the table after this one had, or after it was made.
        traced: Whether the table's log shows anything of this pipeline.
        table_id: The table's own id; None if there is no table.
        log_from: Oldest version in its log, if all of it was read.
        shape: What the newest batch was declared like.
        code: Digest of the code that it ran with.
        models: Those that its transform applied.
        topic_ids: Ids that the topics had for the newest batch.
        cluster: Whose offsets it has.
        clusters: The same for each of several streams, by name.
        backfilled_to: Where the backfills of this pipeline ended, if a first start would append their rows
            again; empty if no offset says that.
        unreadable: Why the table's log cannot be read; nothing else is known then.
    """

    last_batch: int | None = None
    begun: bool = False
    query_id: str | None = None
    transaction: int | None = None
    ends: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    hole: str | None = None
    written_by: str | None = None
    traced: bool = False
    table_id: str | None = None
    log_from: int | None = None
    shape: Shape | None = None
    code: str | None = None
    models: Mapping[str, UsedModel] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None
    clusters: Mapping[str, str | None] = field(default_factory=dict)
    backfilled_to: Positions | None = None
    unreadable: str | None = None

    def of_stream(self, name: str) -> TableFacts:
        """What concerns one of several streams."""
        # A batch that did not read the stream has no end of it.
        ends = {batch: {name: found.get(name)} for batch, found in self.ends.items() if found}
        shape = None if self.shape is None else self.shape.of_stream(name)
        return replace(self, ends=ends, cluster=self.clusters.get(name), shape=shape)


@dataclass(frozen=True)
class StateFacts:
    """What the next batch needs of the state stores, and what is there.

    Args:
        operators: Numbers of the stateful operators; empty for a stateless query.
        version: Version that the next batch loads.
        missing: What of it cannot be loaded, each with the reason.
        left_behind: Store files of versions that no planned batch can have written.
    """

    operators: tuple[int, ...] = ()
    version: int | None = None
    missing: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopicFacts:
    """What the broker says of the topics that the pipeline reads.

    Args:
        oldest: Offset of the oldest record that each partition still has.
        ends: First offset after the newest record.
        ids: Id that the broker gave each topic when it was made; without topics whose id it does not tell.
        cluster: Id of the cluster, or the event hub with its namespace; None if it does not tell.
    """

    oldest: Positions
    ends: Positions
    ids: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None


@dataclass(frozen=True)
class TableSourceFacts:
    """What the Delta table says that the pipeline reads.

    Args:
        table_id: Its id; None if there is no table.
        version: Its newest version.
        missing: Versions that were not read yet and whose commit file is gone.
        missing_files: Data files of those versions that are gone, at most a few.
    """

    table_id: str | None = None
    version: int = -1
    missing: tuple[int, ...] = ()
    missing_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceFacts:
    """What is there of the source; the parts that the kind of source has.

    Args:
        log: Whether the stream's folder below `sources/` holds anything.
        initial: Where the source began when the checkpoint was born, if a batch needs that.
        topics: What the broker says; None if nobody asked it.
        table: What the table to read says.
        missing: Files of the batch to repeat that are gone, or log entries that should name them.
        archived: Files in the archive of a folder that the pipeline has never read.
        in_the_way: Those of them in whose place something else is.
    """

    log: bool = False
    initial: Any = None
    topics: TopicFacts | None = None
    table: TableSourceFacts | None = None
    missing: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declared:
    """What the pipeline's files say that a checkpoint depends on.

    Args:
        shape: As it stands in ledger entries.
        topics: Topics that are read by name; empty for others and for a pattern.
        code: Digest of the code; empty if nobody asks.
        models: Those that the transform applies; only a driver knows which ones they are.
        streams: What they say of each of several streams, by name; empty for one.
        state_store: What holds its state.
        trigger: When its query makes batches, if it makes any.
    """

    shape: Shape
    topics: frozenset[str] = frozenset()
    code: str = ""
    models: Mapping[str, UsedModel] = field(default_factory=dict)
    streams: Mapping[str, Declared] = field(default_factory=dict)
    state_store: StateStore = "rocksdb"
    trigger: str = "interval"


@dataclass(frozen=True)
class DriverFacts:
    """What the last driver said of itself.

    Args:
        run_id: Its run.
        state: What it did last.
        generation: The generation that it ran.
        batch_id: Newest batch that it wrote.
        age_seconds: How long ago it said so.
    """

    run_id: str
    state: str
    generation: str | None
    batch_id: int | None
    age_seconds: float


@dataclass(frozen=True)
class CheckpointFacts:
    """Everything that the gate decides upon.

    Args:
        pipeline: Its name.
        generation: The checkpoint's.
        declared: What the pipeline file says.
        base: Where a verb took the generation from; None for one that began by itself.
        accepted: Declaration and code that a person has accepted for this generation.
        query_id: From `metadata`; None if there is none, or it is damaged.
        offsets: The folder `offsets`.
        commits: The folder `commits`.
        planned_batches: The newest files of `offsets`, by batch.
        newest_commit: The newest file of `commits`.
        damaged: Files that Spark needs and whose content is not what it wrote, with the reason.
        state: The state stores.
        source: What is there of the one stream's source.
        sources: The same for each of several streams, by name.
        stream: Name of the stream that these facts are narrowed to; empty if they are not.
        tables: By table name.
        asides: Tables of records that were set aside, by output.
        last_driver: What the last driver said of itself.
        told_batch: Newest batch of this generation that receipts tell of, for a pipeline without tables.
        meant: What is known of the stateful operators of the code that wrote the newest batch.
        means: The same of the code that is declared now.
    """

    pipeline: str
    generation: str
    declared: Declared
    base: Base | None = None
    accepted: Accepted | None = None
    query_id: str | None = None
    offsets: BatchLog = BatchLog()
    commits: BatchLog = BatchLog()
    planned_batches: Mapping[int, OffsetsFile] = field(default_factory=dict)
    newest_commit: CommitsFile | None = None
    damaged: Mapping[str, str] = field(default_factory=dict)
    state: StateFacts = StateFacts()
    source: SourceFacts = SourceFacts()
    sources: Mapping[str, SourceFacts] = field(default_factory=dict)
    stream: str = ""
    tables: Mapping[str, TableFacts] = field(default_factory=dict)
    asides: Mapping[str, TableFacts] = field(default_factory=dict)
    last_driver: DriverFacts | None = None
    told_batch: int | None = None
    meant: PlannedVersion = field(default_factory=PlannedVersion)
    means: PlannedVersion = field(default_factory=PlannedVersion)

    @property
    def code(self) -> str:
        """Digest of the code that wrote the newest batch; empty if no table says."""
        return next((found.code for found in self.tables.values() if found.code), "")

    @property
    def planned(self) -> int | None:
        """Newest batch of `offsets`."""
        return self.offsets.last

    @property
    def committed(self) -> int | None:
        """Newest batch of `commits`."""
        return self.commits.last

    def about(self, **found: object) -> dict[str, object]:
        """The facts of a finding."""
        stream = {"stream": self.stream} if self.stream else {}
        return {"pipeline": self.pipeline, "generation": self.generation, **stream, **found}

    def error(
        self, finding_id: str, problem: str, found: Mapping[str, object], fix: str, runbook: str
    ) -> Finding:
        """Why a start must be refused."""
        return Finding(finding_id, "error", self.pipeline, problem, found, fix, runbook)

    def all_tables(self) -> dict[str, TableFacts]:
        """The sinks' tables and those of records that were set aside, by name."""
        return {**self.tables, **self.asides}

    def each_stream(self) -> list[CheckpointFacts]:
        """These facts as far as they concern one stream, for each: of one stream, they themselves."""
        return [self._of_stream(name) for name in self.declared.streams] or [self]

    def _of_stream(self, name: str) -> CheckpointFacts:
        planned = {
            batch: replace(file, ends={key: end for key, end in file.ends.items() if key == name})
            for batch, file in self.planned_batches.items()
        }
        return replace(
            self,
            stream=name,
            declared=self.declared.streams[name],
            planned_batches=planned,
            source=self.sources.get(name, SourceFacts()),
            sources={},
            tables={table: found.of_stream(name) for table, found in self.tables.items()},
            asides={output: found.of_stream(name) for output, found in self.asides.items()},
        )

    def end_of(self, batch_id: int | None) -> Any:
        """End offsets of the one stream after a batch; None if its file was not read."""
        file = None if batch_id is None else self.planned_batches.get(batch_id)
        return None if file is None else next(iter(file.ends.values()), None)

    @property
    def next_start(self) -> Any:
        """Offsets from which the next batch reads; None if they are the source's beginning or unknown."""
        return self.end_of(self.committed) if self.has_begun else self.source.initial

    @property
    def has_begun(self) -> bool:
        """Whether a finished batch has read the stream; one of several can have been declared since."""
        is_new = (
            self.stream and self.committed in self.planned_batches and self.end_of(self.committed) is None
        )
        return self.committed is not None and not is_new
