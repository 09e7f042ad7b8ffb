"""The offsets of records in an event-time range; event times alone do not determine offsets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemill.ledger.entry import Positions
from tidemill.names import LINEAGE_COLUMNS
from tidemill.spec.column_names import quoted


def offsets_of_times(
    decoded: DataFrame, column: str, times: tuple[datetime, datetime], start: Positions, end: Positions
) -> tuple[Positions, Positions]:
    """Return the first and end offsets of the records in a time range; both are equal if there are none.

    All records between the first and the last one of a partition are included, whatever their time. So rows
    can be replaced by offsets alone, which never change, whereas older code may have read another time.
    Rejected records have no time, and accepted ones may have none. If such records are adjacent to the range,
    they are also included. Otherwise, of two adjacent ranges, neither would include the records between them.

    Args:
        decoded: Records with their lineage columns.
        column: Column with the time of a record.
        times: Start, and end exclusive.
        start: First offset that was read, for each partition.
        end: The offset after the last one, for each partition.
    """
    first, last = (F.lit(moment) for moment in times)
    time = F.col(quoted(column))
    inside = ((time >= first) & (time < last)).alias("inside")
    timed = decoded.where(time.isNotNull())
    places = timed.select(*LINEAGE_COLUMNS, inside).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = list(_places(places))
    finally:
        places.unpersist()
    starts = {topic: dict(partitions) for topic, partitions in start.items()}
    ends = {topic: dict(partitions) for topic, partitions in end.items()}
    for topic, partition, before, after in found:
        if before is not None:
            starts[topic][partition] = before + 1
        if after is not None:
            ends[topic][partition] = after
    return starts, ends


def _places(places: DataFrame) -> Iterator[tuple[str, str, int | None, int | None]]:
    """Yield the offsets right before and after the range, for each partition that has records with a time."""
    topic, partition, offset = LINEAGE_COLUMNS
    ranges = places.groupBy(topic, partition).agg(
        F.min(F.when(F.col("inside"), F.col(offset))).alias("first"),
        F.max(F.when(F.col("inside"), F.col(offset))).alias("last"),
        F.min(offset).alias("lowest"),
    )
    around = (
        places.join(F.broadcast(ranges), [topic, partition])
        .groupBy(topic, partition, "first", "lowest")
        .agg(
            F.max(F.when(F.col(offset) < F.col("first"), F.col(offset))).alias("before"),
            F.min(F.when(F.col(offset) > F.col("last"), F.col(offset))).alias("after"),
        )
    )
    for row in around.collect():
        name, number = row[topic], str(row[partition])
        if row["first"] is None:
            # The partition has records, but none in the time range.
            yield name, number, row["lowest"] - 1, row["lowest"]
        else:
            yield name, number, row["before"], row["after"]
