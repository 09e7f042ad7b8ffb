"""State folders for the doctor to look at: a healthy pipeline, which a test then makes ill."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

from tests.support.checkpoints import write_checkpoint
from tests.support.commits import commit_of
from tests.support.conf_project import ConfProject
from tests.support.measured_batches import write_measured
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.doctor.examine import Examination, examine
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.procedure.journal import JournalEntry, create_entry, note_step
from tidemill.names import transaction_id
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.table_log import TableLog
from tidemill.storage.store import Store

COLUMNS = pa.schema([("id", pa.int64())])

PIPELINE = """
description: Orders as they came.
owner: tests
source: {kafka: {topic: orders}}
sinks:
  - delta: {table: %s}
%s"""


@dataclass(frozen=True)
class Clinic:
    """A project whose pipelines have state.

    Args:
        project: The project with its conf; the pipeline `orders` of `ConfProject` is replaced.
    """

    project: ConfProject

    @property
    def store(self) -> Store:
        return Store(self.project.load().layout.root)

    def declare(self, name: str = "orders", more: str = "") -> None:
        self.project.write(f"conf/pipelines/{name}.yaml", PIPELINE % (f"bronze/{name}", more))

    def healthy(self, name: str = "orders", batches: int = 3, more: str = "", **table: str) -> Path:
        """Declare a pipeline that has run `batches` batches just now; its checkpoint."""
        self.declare(name, more)
        layout = self.project.load().layout
        read_or_create_current(self.store, layout, name)
        checkpoint = Path(layout.checkpoint(name, "g0001"))
        query_id = hashlib.sha256(name.encode()).hexdigest()[:8]
        write_checkpoint(checkpoint, range(batches), range(batches), query_id)
        self.newest_batch_planned(checkpoint, timedelta())
        self._table(name, batches, query_id, table)
        return checkpoint

    def newest_batch_planned(self, checkpoint: Path, ago: timedelta) -> None:
        """Let the newest batch have begun some time ago."""
        newest = max((checkpoint / "offsets").iterdir(), key=lambda file: int(file.name))
        version, metadata, *ends = newest.read_text().splitlines()
        planned_at = int((datetime.now(UTC) - ago).timestamp() * 1000)
        changed = json.dumps({**json.loads(metadata), "batchTimestampMs": planned_at})
        newest.write_text("\n".join([version, changed, *ends]))

    def state_file(self, path: str, document: Mapping[str, Any], name: str = "orders") -> None:
        """Write a control file."""
        self.store.write_json(f"{self.project.load().layout.state(name)}/{path}", document)

    def measured(self, name: str = "orders", **batch: Any) -> None:
        """Let its driver have reported ten batches, each with these values; see `progress`."""
        write_measured(self.project.resolve(name), **batch)

    def begin(self, request_id: str) -> None:
        """Begin a request that does not come to its end."""
        entry = JournalEntry(
            verb="rewind",
            pipeline="orders",
            request_id=request_id,
            by="ann",
            why="bad deploy",
            plan={},
            steps=("copy", "restore"),
        )
        layout = self.project.load().layout
        assert create_entry(self.store, layout, entry)
        assert note_step(self.store, layout, entry, {}) is not None

    def examine(self, *names: str) -> Examination:
        return examine(self.project.load(), names)

    def finding(self, finding_id: str) -> Finding:
        """Return the only finding of this id."""
        (found,) = (f for f in self.examine().findings if f.finding_id == finding_id)
        return found

    def ids(self) -> list[str]:
        return [finding.finding_id for finding in self.examine().findings]

    def _table(self, name: str, batches: int, query_id: str, properties: Mapping[str, str]) -> None:
        path = self.project.load().layout.table(f"bronze/{name}")
        schema = Schema.from_arrow(COLUMNS)
        DeltaTable.create(path, schema=schema, configuration=dict(properties))
        log = TableLog(path)
        for batch_id in range(batches):
            commit = commit_of(batch_id, pipeline=name)
            entry = commit.entry.model_copy(update={"query_id": query_id, "output": f"bronze/{name}"})
            app_id = transaction_id(name, "g0001", f"bronze/{name}")
            log.commit([], BatchCommit(app_id, batch_id, entry), COLUMNS)
