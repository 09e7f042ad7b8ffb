"""The pipeline `orders` and its table of many small files, made without Spark and as old as a test wants."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from tests.support.checkpoint_files import committed, metadata, planned
from tests.support.commits import TABLE, commit_of
from tests.support.conf_project import ConfProject
from tidemill.checkpoint.current import read_or_create_current
from tidemill.maintenance.maintain import StepDone, TablePlan, TableReport, maintain, nothing_more
from tidemill.maintenance.maintain import plan_maintenance as plan
from tidemill.maintenance.needs import maintained_tables
from tidemill.names import Layout, transaction_id
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Environment
from tidemill.storage.object_stores import NO_ACCESS
from tidemill.storage.parquet_part import write_part
from tidemill.storage.store import Store

COLUMNS = pa.schema([("id", pa.int64())])

PIPELINE = """
description: Orders as they came.
owner: tests
source: {source}
sinks:
  - delta: {{table: {table}}}
"""


class SmallFiles:
    """A project in a folder; batch N of `orders` is one commit of one file with the row N."""

    def __init__(self, folder: Path) -> None:
        self.project = ConfProject(folder)
        self.declare("orders", "{kafka: {topic: orders}}", TABLE)
        self.log = TableLog(self.path)
        self.log.create(COLUMNS)
        self._next = 0

    @property
    def environment(self) -> Environment:
        return self.project.load()

    @property
    def layout(self) -> Layout:
        return self.environment.layout

    @property
    def store(self) -> Store:
        return Store(self.layout.root)

    @property
    def path(self) -> str:
        return self.layout.table(TABLE)

    @property
    def delta(self) -> DeltaTable:
        return DeltaTable(self.path)

    @property
    def table_id(self) -> str:
        return str(self.delta.metadata().id)

    def declare(self, name: str, source: str, table: str) -> None:
        self.project.write(f"conf/pipelines/{name}.yaml", PIPELINE.format(source=source, table=table))

    def write(self, batches: int) -> None:
        """Commit the next batches, as the arrow writer does."""
        for batch_id in range(self._next, self._next + batches):
            ids = pa.RecordBatch.from_arrays([pa.array([batch_id], pa.int64())], schema=COLUMNS)
            part = write_part(self.path, f"part-{batch_id}.parquet", COLUMNS, [ids], NO_ACCESS)
            assert part is not None
            commit = replace(
                commit_of(batch_id, pipeline="orders"), app_id=transaction_id("orders", "g0001", TABLE)
            )
            assert self.log.commit([part], commit, COLUMNS).committed
        self._next += batches

    def age(self, days: float) -> None:
        """Let all files of the table be so old."""
        moment = (datetime.now(UTC) - timedelta(days=days)).timestamp()
        for file in Path(self.path).rglob("*"):
            if file.is_file():
                os.utime(file, (moment, moment))

    def checkpointed(self, pipeline: str, planned_days_ago: float, *ends: object) -> None:
        """Write a checkpoint with one batch."""
        read_or_create_current(self.store, self.layout, pipeline)
        folder = self.layout.checkpoint(pipeline, "g0001")
        at = int((datetime.now(UTC) - timedelta(days=planned_days_ago)).timestamp() * 1000)
        self.store.write(f"{folder}/metadata", metadata("2f1c"))
        self.store.write(f"{folder}/offsets/1", planned(*ends, at_ms=at))
        self.store.write(f"{folder}/commits/1", committed())

    def plan(self, now: datetime | None = None) -> TablePlan:
        environment = self.environment
        found = plan(environment, self.store, maintained_tables(environment), TABLE, now)
        assert found is not None
        return found

    def maintain(
        self, step_done: StepDone = nothing_more, *, may_delete: bool = True, table: str = TABLE
    ) -> TableReport:
        environment = self.environment
        known = maintained_tables(environment)
        return maintain(environment, self.store, known, table, may_delete=may_delete, step_done=step_done)

    def ids(self, version: int | None = None) -> list[int]:
        """Return the rows of a version."""
        table = DeltaTable(self.path, version=version)
        return sorted(table.to_pyarrow_table().column("id").to_pylist())

    def data_files(self) -> set[str]:
        """Return names of all data files that there are."""
        return {file.name for file in Path(self.path).glob("*.parquet")}

    def commit_files(self) -> list[int]:
        """Return versions whose commit files there are."""
        return sorted(int(file.stem) for file in (Path(self.path) / "_delta_log").glob("*.json"))
