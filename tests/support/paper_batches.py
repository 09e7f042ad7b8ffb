"""Batches as a driver leaves them on storage, made without Spark: checkpoint, rows and ledger agree.

Of a topic each batch reads ten offsets of partition 0, and the rows are these offsets: so a table whose
`id`s are 0, 1, 2 … without a gap has got every record once. Of other sources a batch has no rows.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.support import checkpoint_files
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.gate import check, check_holds, gather_facts
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.ledger.code import code_of
from tidemill.ledger.entry import LedgerEntry, OffsetRange
from tidemill.ledger.shape import shape_of
from tidemill.names import transaction_id
from tidemill.sinks.batch_commit import BatchCommit, Written
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Pipeline
from tidemill.storage.parquet_part import write_part
from tidemill.storage.store import Store

COLUMNS = pa.schema([("id", pa.int64())])
ROWS = 10


@dataclass(frozen=True)
class PaperBatches:
    """The batches of one pipeline with the files of a local root.

    Args:
        pipeline: Pipeline of the batches.
        topic_ids: Ids that the broker is said to give the topics.
        cluster: Id that its cluster is said to have.
    """

    pipeline: Pipeline
    topic_ids: tuple[tuple[str, str], ...] = ()
    cluster: str | None = None

    @property
    def store(self) -> Store:
        return Store(self.pipeline.layout.root)

    @property
    def generation(self) -> str:
        return read_or_create_current(self.store, self.pipeline.layout, self.pipeline.name).generation

    @property
    def checkpoint(self) -> Path:
        return Path(self.pipeline.layout.checkpoint(self.pipeline.name, self.generation))

    @property
    def batches(self) -> CheckpointBatches:
        return CheckpointBatches(self.store, str(self.checkpoint))

    def admit(self) -> None:
        """Refuse as a driver does before its first batch."""
        check_holds(self.store, self.pipeline.layout, self.pipeline.name)
        check(gather_facts(self.store, self.pipeline, self.generation))

    def run(self, run_id: str = "run-1", epoch: int = 1) -> int:
        """Plan, write and finish the next batch, or the one that was planned; its number."""
        number = self.plan()
        for sink in self.pipeline.spec.delta_sinks:
            self.write(number, sink.table, run_id, epoch)
        self.finish(number)
        return number

    def plan(self) -> int:
        """Write `offsets/N` unless a planned batch waits."""
        committed, planned = self.batches.last_committed(), self.batches.last_planned()
        number = 0 if committed is None else committed + 1
        if planned != number:
            self._be_born()
            before = None if planned is None else self.batches.offsets(planned)
            end = self._end_after(None if before is None else next(iter(before.ends.values())), number)
            conf = {"spark.sql.shuffle.partitions": str(self.pipeline.spec.run.shuffle_partitions)}
            now = int(time.time() * 1000)
            self._put(f"offsets/{number}", checkpoint_files.planned(end, at_ms=now, conf=conf))
        return number

    def write(self, number: int, table: str, run_id: str = "run-1", epoch: int = 1) -> None:
        """Commit the rows of a planned batch to one table."""
        self.writes_later(number, table, run_id, epoch)()

    def writes_later(
        self, number: int, table: str, run_id: str = "run-1", epoch: int = 1
    ) -> Callable[[], Written]:
        """Return the commit of a driver that is paused just before it."""
        planned = self.batches.planned(number)
        assert planned is not None
        ((start, end),) = self.batches.ranges_of(planned).values()
        ids = dict(self.topic_ids) or None
        entry = LedgerEntry(
            pipeline=self.pipeline.name,
            output=table,
            mode="stream",
            run_id=run_id,
            generation=self.generation,
            query_id=self.batches.query_id(),
            epoch=epoch,
            batch_id=number,
            sources={"source": OffsetRange(start=start, end=end, topic_ids=ids, cluster=self.cluster)},
            code=code_of(self.pipeline),
            shape=shape_of(self.pipeline.spec),
        )
        path = self.pipeline.layout.table(table)
        log = TableLog(path)
        log.create(COLUMNS)
        log.check_appendable(COLUMNS)
        name = f"{self.pipeline.name}-{self.generation}-{number}-{uuid.uuid4().hex[:8]}.parquet"
        ids = pa.array(_offsets(start, end), pa.int64())
        part = write_part(path, name, COLUMNS, [pa.RecordBatch.from_arrays([ids], schema=COLUMNS)])
        app_id = transaction_id(self.pipeline.name, self.generation, table)
        commit = BatchCommit(app_id, number, entry)
        return lambda: log.commit([] if part is None else [part], commit, COLUMNS)

    def finish(self, number: int) -> None:
        """Write `commits/N`."""
        self._put(f"commits/{number}", checkpoint_files.committed())

    def ids(self, table: str) -> list[int]:
        """Return rows of a table, sorted."""
        path = self.pipeline.layout.table(table)
        names = DeltaTable(path).get_add_actions().column("path").to_pylist()
        return sorted(i for name in names for i in pq.read_table(f"{path}/{name}")["id"].to_pylist())

    def _be_born(self) -> None:
        """Write the files that Spark writes at the first start of a checkpoint."""
        if self.batches.query_id() is None:
            self._put("metadata", checkpoint_files.metadata(str(uuid.uuid4())))
        if self.pipeline.spec.source.is_kafka and not (self.checkpoint / "sources/0/0").exists():
            topics = self.pipeline.spec.source.topics_or_pattern
            begin = {topic: {"0": 0} for topic in topics}
            self._put("sources/0/0", checkpoint_files.initial_offsets(begin))

    def _end_after(self, before: Any, number: int) -> Any:
        source = self.pipeline.spec.source
        if source.is_kafka:
            start = before or self.batches.initial_offset()
            return {t: {p: o + (ROWS if p == "0" else 0) for p, o in ps.items()} for t, ps in start.items()}
        if source.files is not None:
            return self._files_end(before)
        if source.delta is not None:
            table = DeltaTable(self.pipeline.layout.table(source.delta.table))
            place = {"reservoirVersion": table.version() + 1, "index": -1, "isStartingVersion": False}
            return {"sourceVersion": 1, "reservoirId": str(table.metadata().id), **place}
        return 1000 * (number + 1)

    def _files_end(self, before: Any) -> dict[str, int]:
        """Read the files that no entry of the log names yet."""
        number = 0 if before is None else before["logOffset"] + 1
        landing = Path(self.pipeline.layout.root) / self.pipeline.spec.source.chosen.path
        logs = (self.checkpoint / "sources/0").glob("*")
        known = {json.loads(line)["path"] for log in logs for line in log.read_text().splitlines()[1:]}
        new = [f"file://{file}" for file in sorted(landing.iterdir()) if f"file://{file}" not in known]
        lines = [
            json.dumps({"path": path, "timestamp": 1_700_000_000_000, "batchId": number}) for path in new
        ]
        self._put(f"sources/0/{number}", "\n".join(["v1", *lines]).encode())
        return {"logOffset": number}

    def _put(self, name: str, content: bytes) -> None:
        self.store.write(f"{self.checkpoint}/{name}", content)


def _offsets(start: Any, end: Any) -> range:
    """Offsets of partition 0 of the only topic; none for another source."""
    if not isinstance(end, dict) or not all(isinstance(part, dict) for part in end.values()):
        return range(0)
    ((topic, partitions),) = end.items()
    return range(((start or {}).get(topic) or {}).get("0", 0), partitions["0"])
