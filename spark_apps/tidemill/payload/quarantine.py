"""Records that are set aside: tasks write them, pass the file to the driver, and the driver commits it first.

A record is decoded once. The task that finds it invalid writes it to a data file of the quarantine table
under a unique name; a late record (`late_rows.py`) goes to a file of another table. The file becomes part of
the table only with the driver's commit, before the batch. So no attempt, stage or start replaces the file of
another one. `rejected_files` decides which files count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from tidemill.payload.rejected_files import (
    NOTHING_KNOWN,
    EachOnce,
    Known,
    RejectedFile,
    TaskTrace,
    content_of,
    stretches_of,
)
from tidemill.storage.access import access_to
from tidemill.storage.object_stores import NO_ACCESS, Access
from tidemill.storage.parquet_part import PartFile, write_part

# Reason, position of the record (in a topic, or in a file), arrival time, the record itself, and the run that
# rejected it. Columns that a kind of source lacks are null.
QUARANTINE_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("arrived_at", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("quarantined_at", pa.timestamp("us", "UTC")),
        ("batch_id", pa.int64()),
        ("run_id", pa.string()),
    ]
)


# Columns with the time and run that set a record aside.
_BY_WHOM = ("quarantined_at", "batch_id", "run_id")


class _Union(AccumulatorParam[dict[str, RejectedFile]]):
    """Files by name."""

    def zero(self, value: dict[str, RejectedFile]) -> dict[str, RejectedFile]:  # noqa: ARG002  # Spark's
        return {}

    def addInPlace(  # noqa: N802  # Spark's name
        self, value1: dict[str, RejectedFile], value2: dict[str, RejectedFile]
    ) -> dict[str, RejectedFile]:
        return {**value1, **value2}


@dataclass(frozen=True)
class Quarantine:
    """Both ends of the path of rejected records: tasks add, the driver takes.

    Args:
        path: The table.
        run_id: The driver's run.
        handed_in: Carries the files from the tasks to the driver.
        access: Credentials for the table's storage, for the tasks.
        schema: Columns of the table; they differ for records that are set aside for a reason other than being
            invalid.
        stream: Stream of the tasks' records, because several streams can have equal records.
    """

    path: str
    run_id: str
    handed_in: Accumulator[dict[str, RejectedFile]]
    access: Access = NO_ACCESS
    schema: pa.Schema = QUARANTINE_SCHEMA
    stream: str = ""

    @staticmethod
    def at(
        context: SparkContext, path: str, run_id: str, schema: pa.Schema = QUARANTINE_SCHEMA
    ) -> Quarantine:
        """Return the table of one start of a query, or of a backfill."""
        return Quarantine(path, run_id, context.accumulator({}, _Union()), access_to(path), schema)

    def take(self, known: Known = NOTHING_KNOWN) -> list[PartFile]:
        """Return the files handed in since the last call, each record once. Runs on the driver.

        Args:
            known: Records that the table already has.
        """
        files = [file for _, file in sorted(self.handed_in.value.items())]
        self.forget()
        return EachOnce(self.path, self.access, known).files(files)

    def forget(self) -> None:
        """Drop the files handed in since the last call. Runs on the driver."""
        self.handed_in.value = {}

    def write(self, rejected: Sequence[pa.RecordBatch]) -> None:
        """Write the rejected records of a task, if there are any, and hand in the file."""
        part = write_part(self.path, f"part-{uuid4().hex}.parquet", self.schema, rejected, self.access)
        if part is not None:
            stretches = stretches_of(rejected)
            task = None if stretches else _trace_of(rejected)
            self.handed_in.add({part.name: RejectedFile(part, stretches, task, self.stream)})

    def rows(self, records: Mapping[str, pa.Array], reasons: Sequence[str]) -> pa.RecordBatch:
        """Return records in the table's columns. Runs in a task.

        Args:
            records: Columns that the source knows.
            reasons: Reason for each record.
        """
        task = TaskContext.get()
        batch_id = (task.getLocalProperty("streaming.sql.batchId") if task else None) or None
        count = len(reasons)
        told = {
            "reason": pa.array(reasons, pa.string()),
            **records,
            "quarantined_at": pa.array([datetime.now(UTC)] * count, pa.timestamp("us", "UTC")),
            "batch_id": pa.array([int(batch_id) if batch_id else None] * count, pa.int64()),
            "run_id": pa.array([self.run_id] * count, pa.string()),
        }
        arrays = [
            told[field.name].cast(field.type) if field.name in told else pa.nulls(count, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _trace_of(rejected: Sequence[pa.RecordBatch]) -> TaskTrace:
    task = TaskContext.get()
    content = content_of(rejected, _BY_WHOM)
    return TaskTrace(task.taskAttemptId() if task else 0, task.partitionId() if task else 0, content)
