"""A pipeline with a real Delta table and a checkpoint in Spark's format, on any store, made without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.support.checkpoints import write_checkpoint
from tests.support.commits import TABLE, commit_of
from tests.support.declared import declared
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import read_current, read_or_create_current
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.names import transaction_id
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to
from tidemill.storage.parquet_part import write_part
from tidemill.storage.store import Store

COLUMNS = pa.schema([("id", pa.int64())])
# Records, and rows, of a batch.
ROWS = 10


class Killed(BaseException):
    """A kill that no code catches, like SIGKILL."""


@dataclass(frozen=True)
class PipelineOnDisk:
    """The pipeline `orders`: batch N holds offsets and ids 10 N to 10 N + 9, written to `bronze/orders`."""

    place: StorePlace

    @cached_property
    def resolved(self) -> Pipeline:
        # The project has no files; its declarations are passed in.
        (self.place.folder / "conf/pipelines").mkdir(parents=True, exist_ok=True)
        return declared(self.place.folder, environment=dict(self.place.keys))

    @property
    def store(self) -> Store:
        return self.place.open()

    @property
    def table(self) -> str:
        return self.resolved.layout.table(TABLE)

    @property
    def table_options(self) -> dict[str, str]:
        """Return delta-rs's options for the table."""
        return access_to(self.table).delta_options()

    @property
    def table_id(self) -> str:
        """Delta's id of it."""
        return str(DeltaTable(self.table, storage_options=self.table_options).metadata().id)

    @property
    def state(self) -> str:
        return self.resolved.layout.state("orders")

    @property
    def live(self) -> str:
        current = read_current(self.store, self.resolved.layout, "orders")
        return "none" if current is None else current.generation

    @property
    def files(self) -> list[str]:
        """Return all files below the state folder, by their path below it."""
        return [file.path.removeprefix(f"{self.state}/") for file in self.store.list_files(self.state)]

    @property
    def ids(self) -> list[int]:
        """Return rows of the table."""
        table = DeltaTable(self.table, storage_options=self.table_options)
        store = Store(self.table)
        found: list[int] = []
        for name in table.get_add_actions().column("path").to_pylist():
            content = store.read(f"{self.table}/{name}")
            assert content is not None
            found += pq.read_table(pa.BufferReader(content)).column("id").to_pylist()
        return sorted(found)

    def ran(self, batches: int) -> PipelineOnDisk:
        """Write the files of a driver that has committed this number of batches of the first generation."""
        read_or_create_current(self.store, self.resolved.layout, "orders")
        with tempfile.TemporaryDirectory() as folder:
            ids = range(batches)
            write_checkpoint(Path(folder), planned=ids, committed=ids)
            self._upload(Path(folder), f"{self.state}/g0001")
        log = self._log()
        for batch_id in range(batches):
            self.commit(batch_id, log=log)
        return self

    def ran_on(self, begin: int, end: int, generation: str = "g0001") -> None:
        """Write the files that a driver would leave after it has committed these batches."""
        with tempfile.TemporaryDirectory() as folder:
            ids = range(begin, end)
            write_checkpoint(Path(folder), planned=ids, committed=ids)
            for name in ("metadata", "sources/0/0"):
                (Path(folder) / name).unlink()
            self._upload(Path(folder), f"{self.state}/{generation}")
        query_id = CheckpointBatches(self.store, f"{self.state}/{generation}").query_id()
        for batch_id in ids:
            self.commit(batch_id, generation, query_id=query_id)

    def compact(self) -> None:
        """OPTIMIZE the table."""
        DeltaTable(self.table, storage_options=self.table_options).optimize.compact()

    def commit(
        self,
        batch_id: int,
        generation: str = "g0001",
        pipeline: str = "orders",
        query_id: str | None = "2f1c",
        log: TableLog | None = None,
    ) -> None:
        """Commit the rows of a batch to the table."""
        log = log or self._log()
        ids = pa.array(range(ROWS * batch_id, ROWS * (batch_id + 1)), pa.int64())
        rows = pa.RecordBatch.from_arrays([ids], schema=COLUMNS)
        name = f"{pipeline}-{generation}-{batch_id}.parquet"
        part = write_part(self.table, name, COLUMNS, [rows], access_to(self.table))
        assert part is not None
        commit = commit_of(batch_id, pipeline=pipeline)
        commit = replace(
            commit,
            app_id=transaction_id(pipeline, generation, TABLE),
            entry=commit.entry.model_copy(update={"generation": generation, "query_id": query_id}),
        )
        assert log.commit([part], commit, COLUMNS).committed

    def _log(self) -> TableLog:
        log = TableLog(self.table)
        log.create(COLUMNS)
        return log

    def _upload(self, folder: Path, target: str) -> None:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.store.write(f"{target}/{file.relative_to(folder)}", file.read_bytes())


def killed_at(moment: str) -> Callable[[str], None]:
    """Return a `step_done` that dies there."""

    def step_done(name: str) -> None:
        if name == moment:
            raise Killed

    return step_done
