"""Needs for older versions of a table: rewinds and backups of its pipelines, and its readers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from tidemill.checkpoint.procedure.unfinished import unfinished
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.reading.log_files import OffsetsFile
from tidemill.checkpoint.reading.source_logs import parse_delta_offset
from tidemill.checkpoint.verbs.backup_manifest import CHECKPOINT, Manifest, backup_folder, read_manifests
from tidemill.errors import TidemillError, UnavailableError
from tidemill.maintenance.decide import Need
from tidemill.names import ASIDE_OUTPUTS, GENERATION_PATTERN, Layout
from tidemill.spec.project import Environment, Pipeline, resolve_pipeline
from tidemill.spec.sources import DeltaSource
from tidemill.storage.store import Store

# Maximum difference between a driver's clock and the storage's clock.
CLOCKS = timedelta(hours=1)

# Maximum tries to read the oldest batch, which a live stream may purge, once per batch at most.
LOOKS = 10


@dataclass
class MaintainedTable:
    """A table that declared pipelines write.

    Args:
        name: `silver/orders`, or `quarantine/orders`.
        path: Its path.
        writers: Pipelines that write it.
        readers: Pipelines that read it.
    """

    name: str
    path: str
    writers: list[Pipeline] = field(default_factory=list)
    readers: list[Pipeline] = field(default_factory=list)


@dataclass(frozen=True)
class Maintained:
    """The tables of an environment.

    Args:
        tables: Tables by name.
        broken: Pipelines with unreadable files, whose needs are unknown.
    """

    tables: dict[str, MaintainedTable]
    broken: tuple[str, ...] = ()


def maintained_tables(environment: Environment) -> Maintained:
    """Return all tables that declared pipelines write, with their readers. Reads conf only."""
    layout, tables = environment.layout, dict[str, MaintainedTable]()
    pipelines, broken = [], []
    for name in environment.project.pipeline_names():
        try:
            pipelines.append(resolve_pipeline(environment, name))
        except TidemillError:
            broken.append(name)
    for pipeline in pipelines:
        paths = {sink.table: layout.table(sink.table) for sink in pipeline.spec.delta_sinks}
        for output in ASIDE_OUTPUTS:
            paths[f"{output}/{pipeline.name}"] = layout.aside(output, pipeline.name)
        for table, path in paths.items():
            tables.setdefault(table, MaintainedTable(table, path)).writers.append(pipeline)
    for pipeline in pipelines:
        for table in dict.fromkeys(_tables_read(pipeline)):
            if table in tables:
                tables[table].readers.append(pipeline)
    return Maintained(tables, tuple(broken))


def gather_needs(
    environment: Environment, store: Store, table: MaintainedTable, table_id: str
) -> tuple[list[Need], list[str]]:
    """Return the needs for older versions, and the reasons why others cannot be determined."""
    needs: list[Need] = []
    unknown: list[str] = []
    layout = environment.layout
    declared = set(environment.project.pipeline_names())
    undeclared = [name for name in store.list_names(layout.states) if name not in declared]
    involved = {pipeline.name: pipeline for pipeline in (*table.writers, *table.readers)}
    for name in (*involved, *undeclared):
        try:
            look = _Look(store, layout, name, table_id)
            needs += look.needs(involved.get(name), table)
            entry = unfinished(store, layout, name)
        except TidemillError as error:
            unknown.append(f"what {name} needs cannot be read: {error.error_id}")
            continue
        if entry is not None:
            unknown.append(f"request {entry.request_id} of {name} has not come to its end")
    return needs, unknown


@dataclass(frozen=True)
class _Look:
    """Access to the state folder of one pipeline, declared or not."""

    store: Store
    layout: Layout
    name: str
    table_id: str

    def needs(self, pipeline: Pipeline | None, table: MaintainedTable) -> Iterator[Need]:
        manifests = read_manifests(self.store, self.layout, self.name)
        for manifest in manifests:
            for base in manifest.tables.values():
                if base.id == self.table_id:
                    yield Need(f"backup {manifest.backup} of {self.name}", version=base.version)
        has_run = False
        for what, path in self._checkpoints(manifests):
            oldest = _oldest_batch(CheckpointBatches(self.store, path))
            if oldest is not None:
                has_run = True
                yield from self._of_checkpoint(f"{what} of {self.name}", oldest, pipeline, table)
        if pipeline is not None and not has_run:
            yield from _before_the_first_start(pipeline, table)

    def _checkpoints(self, manifests: list[Manifest]) -> Iterator[tuple[str, str]]:
        for part in self.store.list_names(self.layout.state(self.name)):
            if re.fullmatch(GENERATION_PATTERN, part):
                yield f"the oldest batch of {part}", self.layout.checkpoint(self.name, part)
        for manifest in manifests:
            folder = backup_folder(self.layout, self.name, manifest.backup)
            yield f"the oldest batch in backup {manifest.backup}", f"{folder}/{CHECKPOINT}"

    def _of_checkpoint(
        self, who: str, oldest: OffsetsFile, pipeline: Pipeline | None, table: MaintainedTable
    ) -> Iterator[Need]:
        for end in oldest.ends.values():
            offset = parse_delta_offset(end)
            if offset is not None and offset.table_id == self.table_id:
                # If a commit stores no changes, they are read from the files that it has removed, which
                # belong to the previous version.
                yield Need(who, version=max(0, offset.version - 1))
        if pipeline is None or oldest.planned_at is None:
            return
        # A rewind cannot go back before this batch. Its tables were at what was committed after it was
        # planned, and a joined table, or one that it began to read, was at its newest version then.
        yield Need(who, since=oldest.planned_at - CLOCKS)
        if oldest.batch_id == 0:
            # The batch may have to be repeated.
            yield from _before_the_first_start(pipeline, table)


def _oldest_batch(batches: CheckpointBatches) -> OffsetsFile | None:
    """Return the oldest planned batch; None without one.

    Raises:
        UnavailableError: TIDE-TABL-002, if it is purged each time before it is read.
    """
    for _ in range(LOOKS):
        numbers = batches.offset_ids()
        if not numbers:
            return None
        if (found := batches.offsets(numbers[0])) is not None:
            return found
    raise UnavailableError(
        "TIDE-TABL-002",
        "The oldest batch of a checkpoint is purged faster than it can be read. Nothing was deleted.",
        facts={"checkpoint": batches.path},
        fix="nothing to do: the next run tries again",
    )


def _before_the_first_start(pipeline: Pipeline, table: MaintainedTable) -> Iterator[Need]:
    for source in _delta_sources(pipeline):
        if source.table == table.name and source.starting_version is not None:
            version = max(0, source.starting_version - 1)
            yield Need(f"the declared start of {pipeline.name}", version=version)
        if source.table == table.name and source.starting_at is not None:
            yield Need(f"the declared start of {pipeline.name}", since=source.starting_at)


def _tables_read(pipeline: Pipeline) -> list[str]:
    return [*pipeline.spec.tables.values(), *(source.table for source in _delta_sources(pipeline))]


def _delta_sources(pipeline: Pipeline) -> list[DeltaSource]:
    streams = pipeline.spec.streams.values()
    return [stream.source.delta for stream in streams if stream.source.delta is not None]
