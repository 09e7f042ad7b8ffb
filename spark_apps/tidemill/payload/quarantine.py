"""Rejected records: written by the tasks that reject them, handed to the driver, committed by the sink.

A record is decoded once. The task that finds it invalid writes it to a data file of the quarantine
table; the file becomes part of the table only by the driver's commit. Names of files are a function
of query start, batch, partition and attempt: a batch that is repeated after a restart never touches a file
that an earlier start may have committed, nor a lost executor that still writes the file of the attempt that
took its place. Of a partition's attempts one file counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from tidemill.storage.access import access_to
from tidemill.storage.object_stores import NO_ACCESS, Access
from tidemill.storage.parquet_part import PartFile, write_part

QUARANTINE_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("kafka_timestamp", pa.timestamp("us", "UTC")),
        ("kafka_key", pa.binary()),
        ("kafka_value", pa.binary()),
        ("quarantined_at", pa.timestamp("us", "UTC")),
        ("batch_id", pa.int64()),
        ("run_id", pa.string()),
    ]
)


class _Union(AccumulatorParam[dict[str, PartFile]]):
    """Files by batch and partition: a stage that runs twice hands in two files for one, of the same rows."""

    def zero(self, value: dict[str, PartFile]) -> dict[str, PartFile]:  # noqa: ARG002  # Spark's signature
        return {}

    def addInPlace(self, value1: dict[str, PartFile], value2: dict[str, PartFile]) -> dict[str, PartFile]:  # noqa: N802
        return {**value1, **value2}


@dataclass(frozen=True)
class Quarantine:
    """Both ends of the way of rejected records: tasks add, the driver takes.

    Args:
        path: The quarantine table.
        run_id: Names the driver's run.
        start: Names this start of the query or backfill; a driver may start its query several times.
        files: Carries the files from the tasks to the driver.
        access: To the table's storage, for the tasks.
    """

    path: str
    run_id: str
    start: str
    files: Accumulator[dict[str, PartFile]]
    access: Access = NO_ACCESS

    @staticmethod
    def at(context: SparkContext, path: str, run_id: str) -> Quarantine:
        """The quarantine of one start."""
        files = context.accumulator({}, _Union())
        return Quarantine(path, run_id, uuid.uuid4().hex, files, access_to(path))

    def take(self) -> list[PartFile]:
        """On the driver: files handed in since the last call, in the order of their partitions."""
        files = [part for _, part in sorted(self.files.value.items())]
        self.files.value = {}
        return files

    def write(self, rejected: Iterator[pa.RecordBatch]) -> None:
        """In a task: write its rejected records, if any, and hand the file in."""
        task = TaskContext.get()
        if task is None:
            raise RuntimeError("rejected records are written by Spark tasks only")
        batch_id = task.getLocalProperty("streaming.sql.batchId") or "backfill"
        place = f"{batch_id}-{task.partitionId():05d}"
        name = f"part-{self.start}-{place}-{task.taskAttemptId()}.parquet"
        part = write_part(self.path, name, QUARANTINE_SCHEMA, rejected, self.access)
        if part is not None:
            self.files.add({place: part})

    def rows(self, records: pa.RecordBatch, indices: pa.Array, reasons: list[str]) -> pa.RecordBatch:
        """Rejected records in the table's columns."""
        task = TaskContext.get()
        batch_id = (task.getLocalProperty("streaming.sql.batchId") if task else None) or None
        taken = records.take(indices)
        now = datetime.now(UTC)
        count = len(reasons)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(reasons, pa.string()),
                *(
                    taken.column(name).cast(QUARANTINE_SCHEMA.field(name).type)
                    for name in QUARANTINE_SCHEMA.names[1:7]
                ),
                pa.array([now] * count, pa.timestamp("us", "UTC")),
                pa.array([int(batch_id) if batch_id else None] * count, pa.int64()),
                pa.array([self.run_id] * count, pa.string()),
            ],
            schema=QUARANTINE_SCHEMA,
        )
