"""What a checkpoint says, put together for a person or a program. Reads; never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from tidemill.checkpoint.current import Current
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate import CheckpointFacts, damages_of, gather_alone
from tidemill.checkpoint.reading.log_files import OffsetsFile, TornFileError
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.source_logs import TrackedSchema, file_log_id, read_schema_log
from tidemill.checkpoint.reading.state_files import Operator, StoreFiles
from tidemill.checkpoint.source_schemas import source_schemas
from tidemill.errors import GateRefusedError
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

Read = TypeVar("Read")


@dataclass(frozen=True)
class SourceReport:
    """How far one source has been read.

    Args:
        name: Its name, or its place in the plan.
        begin: Where it began at the birth of the checkpoint; None if it keeps no such file.
        end: End of the newest planned batch.
    """

    name: str
    begin: Any
    end: Any


@dataclass(frozen=True)
class OperatorReport:
    """The state of one stateful operator.

    Args:
        number: Its id in the plan.
        name: Spark's name of it; empty if its description is missing.
        partitions: Number of its partitions.
        stores: Names of its stores.
        oldest: Oldest version of which there is a file.
        newest: Newest version of which there is a file.
        files: Number of its files.
        size: Their bytes.
    """

    number: int
    name: str
    partitions: int
    stores: tuple[str, ...]
    oldest: int | None
    newest: int | None
    files: int
    size: int


@dataclass(frozen=True)
class ColumnsReport:
    """A version of the columns that a stream has discovered in its files.

    Args:
        stream: Its name.
        version: Number of the version.
        at: When it was kept.
        batch_id: Whose records had the columns; None of the first version.
        added: Columns that the version before lacks.
    """

    stream: str
    version: int
    at: datetime
    batch_id: int | None
    added: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """One checkpoint at one moment.

    Args:
        pipeline: Its name.
        generation: Which checkpoint.
        record: Of how the generation became the live one; None if no record names it.
        is_live: Whether it is the live one.
        query_id: Of the Spark query; None before its first start.
        oldest_planned: Oldest batch that Spark has kept in `offsets/`.
        planned: Newest planned batch.
        planned_at: When Spark planned it.
        committed: Newest finished batch.
        watermark: Event-time watermark of the newest planned batch.
        sources: How far each source has been read.
        schemas: Schemas that Delta sources have tracked, by table and number; empty without tracking.
        conf: Settings that Spark pinned at the query's birth.
        operators: State.
        files: Number of files.
        size: Their bytes.
        oldest_file: When the oldest one was written.
        newest_file: When the newest one was written.
        damages: What the gate finds wrong with its files, state and source, and torn schema logs.
        discovered: Versions of the columns of files that nobody declares, oldest first; of all generations.
        loadable: If the next batch's state cannot be loaded: the newest older version that can be, the state
            after batch `loadable - 1`. None if none can, or if nothing is wrong.
        is_noted: Whether continuous processing wrote it, which plans no batches: numbers are those of its
            notes, and sources are read up to the newest committed one.
    """

    pipeline: str
    generation: str
    record: Current | None
    is_live: bool
    query_id: str | None
    oldest_planned: int | None
    planned: int | None
    planned_at: datetime | None
    committed: int | None
    watermark: datetime | None
    sources: tuple[SourceReport, ...]
    schemas: tuple[TrackedSchema, ...]
    conf: dict[str, str]
    operators: tuple[OperatorReport, ...]
    files: int
    size: int
    oldest_file: datetime | None
    newest_file: datetime | None
    damages: tuple[str, ...]
    discovered: tuple[ColumnsReport, ...] = ()
    loadable: int | None = None
    is_noted: bool = False

    @property
    def repeats(self) -> int | None:
        """Batch that the next start runs again, because it was planned and not committed."""
        if self.is_noted:
            return None
        return self.planned if self.planned is not None and self.planned != self.committed else None


def inspect_checkpoint(
    store: Store, pipeline: Pipeline, generation: str, live: Current | None, record: Current | None
) -> Inspection:
    """Look at one checkpoint.

    Args:
        store: The storage.
        pipeline: Whose.
        generation: Which one.
        live: Record of the live generation.
        record: Newest record of the generation that is looked at.
    """
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, generation))
    facts = gather_alone(reader, pipeline, generation)
    newest = None if facts.planned is None else facts.planned_batches.get(facts.planned)
    is_noted = newest is not None and newest.is_note
    if is_noted:
        newest = None if facts.committed is None else facts.planned_batches.get(facts.committed)
    torn: list[str] = []
    schemas = _unless_torn(lambda: read_schema_log(store, reader.path, reader.files), torn)
    times = sorted(file.modified for file in reader.files)
    return Inspection(
        pipeline=pipeline.name,
        generation=generation,
        record=record,
        is_live=live is not None and live.generation == generation,
        query_id=facts.query_id,
        oldest_planned=min(reader.offset_ids, default=None),
        planned=facts.planned,
        planned_at=newest.planned_at if newest else None,
        committed=facts.committed,
        watermark=newest.watermark if newest else None,
        sources=_sources(reader, newest),
        schemas=tuple(schemas or ()),
        conf=dict(newest.conf) if newest else {},
        operators=tuple(_operators(reader, facts)),
        files=len(reader.files),
        size=sum(file.size for file in reader.files),
        oldest_file=times[0] if times else None,
        newest_file=times[-1] if times else None,
        damages=(*map(_told, damages_of(facts)), *torn),
        discovered=tuple(_discovered(store, pipeline)),
        loadable=_unless_torn(lambda: _older_state(reader, facts), []) if facts.state.missing else None,
        is_noted=is_noted,
    )


def _discovered(store: Store, pipeline: Pipeline) -> Iterator[ColumnsReport]:
    for name in pipeline.streams:
        for found in source_schemas(store, pipeline.layout, pipeline.name, name):
            yield ColumnsReport(name, found.version, found.at, found.batch_id, found.added)


def _unless_torn(read: Callable[[], Read], torn: list[str]) -> Read | None:
    try:
        return read()
    except (GateRefusedError, TornFileError) as error:
        torn.append(f"a file is torn: {error}")
        return None


def _told(finding: Finding) -> str:
    facts = {name: value for name, value in finding.facts.items() if name not in ("pipeline", "generation")}
    return " ".join(
        [finding.finding_id, finding.problem, *(f"{name}={value}" for name, value in facts.items())]
    )


def _older_state(reader: CheckpointReader, facts: CheckpointFacts) -> int | None:
    """Newest version before the one that the next batch needs, at which all state can be loaded."""
    named = reader.state.loadable_versions(reader.commits, facts.committed or 0)
    return next((version for version in named if not reader.state_problems(version)), None)


def _sources(reader: CheckpointReader, newest: OffsetsFile | None) -> tuple[SourceReport, ...]:
    ends = newest.ends if newest else {}
    return tuple(SourceReport(name, _begin(reader, name, end), end) for name, end in ends.items())


def _begin(reader: CheckpointReader, name: str, end: Any) -> Any:
    """Only Kafka keeps its beginning; entry 0 of a files source is the log of the first batch."""
    has_beginning = f"sources/{name}/0" in reader.names and file_log_id(end) is None
    return reader.batches.initial_offset(name) if has_beginning else None


def _operators(reader: CheckpointReader, facts: CheckpointFacts) -> Iterator[OperatorReport]:
    described = {operator.number: operator for operator in reader.operators}
    # A repartition leaves the descriptions alone; the newest commit counts the partitions.
    counted = {} if facts.newest_commit is None else facts.newest_commit.state_ids
    numbers = {key.operator for key in reader.state.stores}
    for number in sorted(numbers | set(described)):
        stores = {key: files for key, files in reader.state.stores.items() if key.operator == number}
        names = tuple(sorted({key.store for key in stores}))
        guessed = Operator(number, "", names, len({key.partition for key in stores}))
        operator = described.get(number, guessed)
        partitions = len(counted[number]) if number in counted else operator.partitions
        yield _operator_report(replace(operator, partitions=partitions), list(stores.values()))


def _operator_report(operator: Operator, stores: list[StoreFiles]) -> OperatorReport:
    versions = [version for files in stores for version in files.versions]
    return OperatorReport(
        operator.number,
        operator.name,
        operator.partitions,
        operator.stores,
        min(versions, default=None),
        max(versions, default=None),
        sum(files.count for files in stores),
        sum(files.size for files in stores),
    )
