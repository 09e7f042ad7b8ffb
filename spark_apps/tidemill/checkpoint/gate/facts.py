"""The facts that the gate decides on: checkpoint, tables, source and declaration."""

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
    """One of the folders `offsets` and `commits`, from a listing.

    Args:
        numbers: Its batches, in ascending order.
        strays: Names that Spark would read as a batch number but never writes itself, such as `007`.
        twins: Numbers of checksum files `.N.crc` without their file `N`.
        empty: Batches whose file is empty.
    """

    numbers: tuple[int, ...] = ()
    strays: tuple[str, ...] = ()
    twins: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()

    @property
    def last(self) -> int | None:
        """Return the newest batch."""
        return self.numbers[-1] if self.numbers else None


@dataclass(frozen=True)
class TableFacts:
    """The facts from one table's log about the pipeline's generation.

    Args:
        last_batch: Newest batch whose rows are in the table. None if the table has no batch of the
            generation.
        begun: True if the log has a commit of the generation: a batch, or the commit with which an operation
            began it.
        query_id: Query that wrote the newest ledger entry of this generation.
        transaction: Newest batch that Delta counts as written, even if its rows were removed later.
        ends: End offsets of the newest batches, by batch and by source name.
        hole: Reason why older batches of the generation are not in the table although the newest one is.
        written_by: Another generation that wrote to the table after this one had, or after this one was made.
        traced: True if the table's log has any commit of this pipeline.
        table_id: Delta's id of the table; None if the table does not exist.
        log_from: Oldest version in the table's log, if the whole log was read.
        shape: Declaration of the newest batch.
        code: Digest of the code that the newest batch ran with.
        models: Models that the transform of the newest batch applied.
        topic_ids: Ids of the topics when the newest batch read them.
        cluster: Id of the cluster that the newest batch read.
        clusters: `cluster` of each stream, by name, if there are several streams.
        backfilled_to: Offsets where the backfills of this pipeline ended, if a first start would append their
            rows again; empty if the offsets are unknown.
        unreadable: Reason why the table's log cannot be read; all other facts are unknown then.
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
        """Return the facts about one of several streams."""
        # A batch that did not read the stream has no end offset for it.
        ends = {batch: {name: found.get(name)} for batch, found in self.ends.items() if found}
        shape = None if self.shape is None else self.shape.of_stream(name)
        return replace(self, ends=ends, cluster=self.clusters.get(name), shape=shape)


@dataclass(frozen=True)
class StateFacts:
    """The state that the next batch needs, and the state that exists.

    Args:
        operators: Numbers of the stateful operators; empty for a stateless query.
        version: Version that the next batch loads.
        missing: Parts of that version that cannot be loaded, each with the reason.
        left_behind: Store files of versions that no planned batch can have written.
    """

    operators: tuple[int, ...] = ()
    version: int | None = None
    missing: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopicFacts:
    """The broker's facts about the topics that the pipeline reads.

    Args:
        oldest: Offset of the oldest record in each partition.
        ends: First offset after the newest record.
        ids: Id that the broker gave each topic at its creation, for topics whose id the broker reports.
        cluster: Id of the cluster, or the event hub with its namespace; None if the broker does not report
            it.
    """

    oldest: Positions
    ends: Positions
    ids: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None


@dataclass(frozen=True)
class TableSourceFacts:
    """The facts of the Delta table that the pipeline reads.

    Args:
        table_id: Id of the table; None if the table does not exist.
        version: Newest version of the table.
        missing: Unread versions whose commit file is gone.
        missing_files: Data files of those versions that are gone; a sample.
    """

    table_id: str | None = None
    version: int = -1
    missing: tuple[int, ...] = ()
    missing_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceFacts:
    """The facts of the source; only the fields of its kind are set.

    Args:
        log: True if the stream's folder below `sources/` has any file.
        initial: Offsets where the source began when the checkpoint was created, if a batch needs them.
        topics: The broker's facts; None if the broker was not asked.
        table: The facts of the table to read.
        missing: Missing files of the batch to repeat, or missing log entries that should name them.
        archived: Files in the archive of a folder that the pipeline has never read.
        in_the_way: Archived files whose place in the folder is taken by something else.
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
    """The part of the pipeline's files that a checkpoint depends on.

    Args:
        shape: The declaration, as ledger entries record it.
        topics: Topics that are read by name; empty for other sources and for a pattern.
        code: Digest of the code; empty if the caller does not need it.
        models: Models that the transform applies; only a driver can resolve them.
        streams: The declaration of each stream, by name, if there are several streams; else empty.
        state_store: State store of the query.
        trigger: Kind of the query's trigger.
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
    """The last driver's own report.

    Args:
        run_id: Run of the driver.
        state: Its last reported state.
        generation: Generation that it ran.
        batch_id: Newest batch that it wrote.
        age_seconds: Age of the report.
    """

    run_id: str
    state: str
    generation: str | None
    batch_id: int | None
    age_seconds: float


@dataclass(frozen=True)
class CheckpointFacts:
    """All facts that the gate decides on.

    Args:
        pipeline: Name of the pipeline.
        generation: Generation of the checkpoint.
        declared: Declaration in the pipeline's files.
        base: The parent from which an operation made the generation; None if it began without a parent.
        accepted: Declaration and code that an operator has accepted for this generation.
        query_id: Id from `metadata`; None if the file is missing or damaged.
        offsets: Listing of the folder `offsets`.
        commits: Listing of the folder `commits`.
        planned_batches: The newest files of `offsets`, by batch.
        newest_commit: The newest file of `commits`.
        damaged: Files that Spark needs and that are damaged, each with the reason.
        state: Facts of the state stores.
        source: Facts of the source, if there is one stream.
        sources: Facts of the source of each stream, by name, if there are several streams.
        stream: Name of the stream that these facts are narrowed to; empty if they are not narrowed.
        tables: Facts of each sink table, by name.
        asides: Facts of each table of rejected or late records, by output.
        last_driver: The last driver's own report.
        told_batch: Newest batch of this generation in the receipts, for a pipeline without tables.
        meant: Recorded stateful operators of the code that wrote the newest batch.
        means: Recorded stateful operators of the code that is declared now.
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
        """Return the digest of the code that wrote the newest batch; empty if no table records it."""
        return next((found.code for found in self.tables.values() if found.code), "")

    @property
    def planned(self) -> int | None:
        """Return the newest batch of `offsets`."""
        return self.offsets.last

    @property
    def committed(self) -> int | None:
        """Return the newest batch of `commits`."""
        return self.commits.last

    def about(self, **found: object) -> dict[str, object]:
        """Return the facts of a finding: `found` with pipeline, generation and stream."""
        stream = {"stream": self.stream} if self.stream else {}
        return {"pipeline": self.pipeline, "generation": self.generation, **stream, **found}

    def error(
        self, finding_id: str, problem: str, found: Mapping[str, object], fix: str, runbook: str
    ) -> Finding:
        """Return a finding that forbids the start."""
        return Finding(finding_id, "error", self.pipeline, problem, found, fix, runbook)

    def all_tables(self) -> dict[str, TableFacts]:
        """Return the sinks' tables and the tables of rejected and late records, by name."""
        return {**self.tables, **self.asides}

    def each_stream(self) -> list[CheckpointFacts]:
        """Return these facts narrowed to each stream, or these facts themselves if there is one stream."""
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
        """Return the stream's end offsets after a batch; None if the batch's file was not read."""
        file = None if batch_id is None else self.planned_batches.get(batch_id)
        return None if file is None else next(iter(file.ends.values()), None)

    @property
    def next_start(self) -> Any:
        """Return the offsets from which the next batch reads; None if unknown or the source's beginning."""
        return self.end_of(self.committed) if self.has_begun else self.source.initial

    @property
    def has_begun(self) -> bool:
        """Return True if a finished batch has read the stream; a stream can have been added since."""
        is_new = (
            self.stream and self.committed in self.planned_batches and self.end_of(self.committed) is None
        )
        return self.committed is not None and not is_new
