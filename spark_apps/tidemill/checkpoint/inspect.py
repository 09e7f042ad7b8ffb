"""Inspect a checkpoint: a read-only report for operators and programs."""

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
    """The read position of one source.

    Args:
        name: Name of the source, or its index in the plan.
        begin: Offsets where it began when the checkpoint was created; None if the source does not store them.
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
        oldest: Oldest version with a file.
        newest: Newest version with a file.
        files: Number of its files.
        size: Total size of the files, in bytes.
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
        stream: Name of the stream.
        version: Number of the version.
        at: Time of storing.
        batch_id: Batch whose records had the columns; None for the first version.
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
        pipeline: Name of the pipeline.
        generation: Name of the generation.
        record: Record of how the generation became live; None if no record names it.
        is_live: True for the live generation.
        query_id: Id of the Spark query; None before its first start.
        oldest_planned: Oldest batch that Spark has kept in `offsets/`.
        planned: Newest planned batch.
        planned_at: Time when Spark planned it.
        committed: Newest finished batch.
        watermark: Event-time watermark of the newest planned batch.
        sources: Read position of each source.
        schemas: Schemas that Delta sources have tracked, by table and number; empty without tracking.
        conf: Settings that Spark pinned when the query was created.
        operators: State of each stateful operator.
        files: Number of files.
        size: Total size of the files, in bytes.
        oldest_file: Modification time of the oldest file.
        newest_file: Modification time of the newest file.
        damages: The gate's findings about files, state and source, and torn schema logs.
        discovered: Versions of the columns of files without a declared schema, oldest first, of all
            generations.
        loadable: If the next batch's state cannot be loaded, the newest older version that can be: the state
            after batch `loadable - 1`. None if no version can be loaded, or if nothing is wrong.
        is_noted: True if continuous processing wrote the checkpoint. It plans no batches, so the numbers are
            those of its notes, and sources are read up to the newest committed note.
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
        """Return the batch that the next start repeats, because it was planned and not committed."""
        if self.is_noted:
            return None
        return self.planned if self.planned is not None and self.planned != self.committed else None


def inspect_checkpoint(
    store: Store, pipeline: Pipeline, generation: str, live: Current | None, record: Current | None
) -> Inspection:
    """Inspect one checkpoint.

    Args:
        store: The storage.
        pipeline: Pipeline of the checkpoint.
        generation: Name of the generation.
        live: Record of the live generation.
        record: Newest record of the inspected generation.
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
    """Return the newest version before the needed one at which all state can be loaded."""
    named = reader.state.loadable_versions(reader.commits, facts.committed or 0)
    return next((version for version in named if not reader.state_problems(version)), None)


def _sources(reader: CheckpointReader, newest: OffsetsFile | None) -> tuple[SourceReport, ...]:
    ends = newest.ends if newest else {}
    return tuple(SourceReport(name, _begin(reader, name, end), end) for name, end in ends.items())


def _begin(reader: CheckpointReader, name: str, end: Any) -> Any:
    """Return where the source began. Only Kafka stores it; entry 0 of a files source logs the first batch."""
    has_beginning = f"sources/{name}/0" in reader.names and file_log_id(end) is None
    return reader.batches.initial_offset(name) if has_beginning else None


def _operators(reader: CheckpointReader, facts: CheckpointFacts) -> Iterator[OperatorReport]:
    described = {operator.number: operator for operator in reader.operators}
    # A repartition does not update the descriptions, so count the partitions in the newest commit.
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
