"""What a checkpoint says, put together for a person or a program. Reads; never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from tidemill.checkpoint.current import Current
from tidemill.checkpoint.reading.log_files import OffsetsFile, TornFileError
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.source_logs import (
    TrackedSchema,
    file_log_id,
    gaps_in_file_log,
    read_schema_log,
)
from tidemill.checkpoint.reading.state_files import Operator, StoreFiles
from tidemill.errors import GateRefusedError
from tidemill.storage.store import Store

Read = TypeVar("Read")

# Damages that are listed one by one; more of a kind are the same story, and a person reads no more.
LISTED_DAMAGES = 20


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
        damages: What is wrong; empty if nothing was found.
        loadable: If the next batch's state cannot be loaded: the newest older version that can be, the state
            after batch `loadable - 1`. None if none can, or if nothing is wrong.
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
    loadable: int | None = None

    @property
    def repeats(self) -> int | None:
        """Batch that the next start runs again, because it was planned and not committed."""
        return self.planned if self.planned is not None and self.planned != self.committed else None


def inspect_checkpoint(store: Store, path: str, live: Current | None, record: Current | None) -> Inspection:
    """Look at one checkpoint.

    Args:
        store: The storage.
        path: The checkpoint directory of `record`'s, or else `live`'s, generation.
        live: Record of the live generation.
        record: Newest record of the generation that is looked at.
    """
    reader = CheckpointReader(store, path)
    damages = _Damages()
    planned, committed = max(reader.offset_ids, default=None), max(reader.commit_ids, default=None)
    newest = None if planned is None else damages.unless_torn(lambda: reader.offsets(planned))
    query_id = damages.unless_torn(lambda: reader.query_id)
    damages.listed(_log_damages(reader, planned, committed))
    lost = list(_state_damages(reader, damages, committed))
    damages.listed(lost)
    times = sorted(file.modified for file in reader.files)
    about = record or live
    return Inspection(
        pipeline=about.pipeline if about else "",
        generation=path.rpartition("/")[2],
        record=record,
        is_live=live is not None and live.generation == path.rpartition("/")[2],
        query_id=query_id,
        oldest_planned=min(reader.offset_ids, default=None),
        planned=planned,
        planned_at=newest.planned_at if newest else None,
        committed=committed,
        watermark=newest.watermark if newest else None,
        sources=_sources(reader, newest),
        schemas=damages.unless_torn(lambda: _schemas(reader)) or (),
        conf=dict(newest.conf) if newest else {},
        operators=tuple(_operators(reader, damages)),
        files=len(reader.files),
        size=sum(file.size for file in reader.files),
        oldest_file=times[0] if times else None,
        newest_file=times[-1] if times else None,
        damages=tuple(damages.found),
        loadable=damages.unless_torn(lambda: _older_state(reader, committed)) if lost else None,
    )


class _Damages:
    """Collects what is wrong instead of stopping at the first."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def unless_torn(self, read: Callable[[], Read]) -> Read | None:
        try:
            return read()
        except (GateRefusedError, TornFileError) as error:
            file = str(error.facts.get("file") if isinstance(error, GateRefusedError) else error)
            self.found += [] if f"{file} is torn" in self.found else [f"{file} is torn"]
            return None

    def listed(self, damages: Iterable[str]) -> None:
        found = list(damages)
        self.found += found[:LISTED_DAMAGES]
        if len(found) > LISTED_DAMAGES:
            self.found.append(f"and {len(found) - LISTED_DAMAGES} more of this kind")


def _log_damages(reader: CheckpointReader, planned: int | None, committed: int | None) -> Iterator[str]:
    """What the names in the listing tell of `metadata`, `offsets/`, `commits/` and `sources/`."""
    if "metadata" not in reader.names and (planned is not None or committed is not None):
        yield "metadata is missing"
    if committed is not None and (planned is None or committed > planned):
        yield f"commits/{committed} is newer than the newest planned batch"
    for folder, numbers in (("offsets", reader.offset_ids), ("commits", reader.commit_ids)):
        yield from (f"{folder}/{number} is missing" for number in _gaps(numbers))
    if planned is not None and planned > 0 and committed is None:
        yield f"commits/ is empty although batch {planned} was planned"
    elif planned is not None and committed is not None and planned > committed + 1:
        yield f"commits/{planned - 1} is missing"
    empty = (name for name, file in reader.names.items() if file.size == 0 and _is_log(name))
    yield from (f"{name} is empty" for name in empty)
    if any(name.startswith("sources/0/") and name.endswith(".compact") for name in reader.names):
        yield from (
            f"sources/0/{number} is missing" for number in gaps_in_file_log(reader.path, reader.files)
        )


def _state_damages(reader: CheckpointReader, damages: _Damages, committed: int | None) -> Iterator[str]:
    """Why the next batch could not load its state."""
    if committed is None:
        return
    problems = damages.unless_torn(lambda: reader.state_problems(committed + 1)) or []
    for problem in problems:
        yield f"{problem.what}: version {problem.version} of the state cannot be loaded"


def _older_state(reader: CheckpointReader, committed: int | None) -> int | None:
    """Newest version before the one that the next batch needs, at which all state can be loaded."""
    named = reader.state.loadable_versions(reader.commits, committed or 0)
    return next((version for version in named if not reader.state_problems(version)), None)


def _sources(reader: CheckpointReader, newest: OffsetsFile | None) -> tuple[SourceReport, ...]:
    ends = newest.ends if newest else {}
    return tuple(SourceReport(name, _begin(reader, name, end), end) for name, end in ends.items())


def _schemas(reader: CheckpointReader) -> tuple[TrackedSchema, ...]:
    return tuple(read_schema_log(reader.store, reader.path, reader.files))


def _begin(reader: CheckpointReader, name: str, end: Any) -> Any:
    """Only Kafka keeps its beginning; entry 0 of a files source is the log of the first batch."""
    has_beginning = f"sources/{name}/0" in reader.names and file_log_id(end) is None
    return reader.batches.initial_offset(name) if has_beginning else None


def _operators(reader: CheckpointReader, damages: _Damages) -> Iterator[OperatorReport]:
    described = {operator.number: operator for operator in reader.operators}
    counted = damages.unless_torn(lambda: _committed_partitions(reader)) or {}
    numbers = {key.operator for key in reader.state.stores}
    for number in sorted(numbers | set(described)):
        stores = {key: files for key, files in reader.state.stores.items() if key.operator == number}
        operator = described.get(number) or Operator(
            number,
            "",
            tuple(sorted({key.store for key in stores})),
            len({key.partition for key in stores}),
        )
        partitions = counted.get(number, operator.partitions)
        yield _operator_report(replace(operator, partitions=partitions), list(stores.values()))


def _committed_partitions(reader: CheckpointReader) -> dict[int, int]:
    """Partitions of each operator by the newest commit; a repartition leaves the descriptions alone."""
    commit = reader.commits(reader.commit_ids[-1]) if reader.commit_ids else None
    return {} if commit is None else {number: len(ids) for number, ids in commit.state_ids.items()}


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


def _gaps(numbers: list[int]) -> list[int]:
    return sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if numbers else []


def _is_log(name: str) -> bool:
    folder, _, number = name.rpartition("/")
    return name == "metadata" or (folder in ("offsets", "commits") and number.isdecimal())
