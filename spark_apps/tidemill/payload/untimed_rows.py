"""Count rows without an event time as they are read: Spark's windows drop them, and no metric counts them.

Spark puts `isnotnull(time)` below each window of event time (TimeWindowing), so these rows never reach the
operator that counts late ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator, AccumulatorParam, SparkContext, TaskContext

# Stream and position of rows: their partition and offsets in a topic, or else the task that read them.
Key = tuple[str, ...]

_PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")


class _Union(AccumulatorParam[dict[Key, int]]):
    """Counts by key: equal keys are the same rows, read again."""

    def zero(self, value: dict[Key, int]) -> dict[Key, int]:  # noqa: ARG002  # Spark's
        return {}

    def addInPlace(self, value1: dict[Key, int], value2: dict[Key, int]) -> dict[Key, int]:  # noqa: N802
        return {**value1, **value2}


@dataclass(frozen=True)
class UntimedRows:
    """Both ends of the count: tasks add, the driver takes.

    A repeated task, and a topic that a transform uses twice, give the same keys, so each row counts once.

    Args:
        counted: Carries the counts from the tasks to the driver.
        stream: Name of the stream whose rows are counted.
    """

    counted: Accumulator[dict[Key, int]]
    stream: str = ""

    @staticmethod
    def at(context: SparkContext) -> UntimedRows:
        """Return the count of one query or backfill."""
        return UntimedRows(context.accumulator({}, _Union()))

    def pass_on(self, batches: Iterator[pa.RecordBatch], column: str) -> Iterator[pa.RecordBatch]:
        """Pass all rows on, and count those whose event time is null. Runs in a task."""
        found: dict[Key, int] = {}
        for batch in batches:
            if batch.column(column).null_count:
                _add(found, batch.filter(pc.is_null(batch.column(column))), self.stream)
            yield batch
        if found:
            self.counted.add(found)

    def forget(self) -> None:
        """Begin to count again. Runs on the driver."""
        self.counted.value = {}

    @property
    def rows(self) -> int:
        """Return the number of rows since the last `forget`. Runs on the driver."""
        return sum(self.counted.value.values())


def _add(found: dict[Key, int], rows: pa.RecordBatch, stream: str) -> None:
    for key, count in _counts(rows).items():
        found[stream, *key] = found.get((stream, *key), 0) + count


def _counts(rows: pa.RecordBatch) -> Mapping[Key, int]:
    """Return the number of rows by position."""
    if not set(_PLACE) <= set(rows.schema.names):
        task = TaskContext.get()
        return {("task", str(task.partitionId() if task else 0)): rows.num_rows}
    topic, partition, offset = _PLACE
    groups = pa.Table.from_batches([rows.select(_PLACE)]).group_by([topic, partition])
    counted = groups.aggregate([(offset, "min"), (offset, "count")]).to_pylist()
    return {
        (str(group[topic]), str(group[partition]), str(group[f"{offset}_min"])): group[f"{offset}_count"]
        for group in counted
    }
