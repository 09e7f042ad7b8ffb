"""The files in which the tasks of one batch hand in rejected records; of each record one copy is committed.

A record is handed in more than once where a stage runs twice, where a transform uses its source twice
(`union`, a join with itself: Spark reads the same offsets for each use), or where another attempt takes the
place of a lost one. A record is its place: topic, partition and offset. Each file says which stretches of
which partitions it holds, so files that share nothing, the usual case, are not opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.storage.object_stores import NO_ACCESS, Access
from tidemill.storage.objects import open_objects
from tidemill.storage.parquet_part import PartFile, write_part

# Columns that say which record a row is of.
PLACE = ["topic", "partition", "offset"]

Partition = tuple[str, int]


@dataclass(frozen=True)
class RejectedFile:
    """One handed-in file.

    Args:
        part: The file.
        stretches: First offset, and end, of the records of each partition.
    """

    part: PartFile
    stretches: Mapping[Partition, range]


def stretches_of(batches: Iterable[pa.RecordBatch]) -> dict[Partition, range]:
    """First offset, and end, by partition; empty for records that are in no topic."""
    rows = pa.Table.from_batches([batch.select(PLACE) for batch in batches])
    topic, partition, offset = PLACE
    groups = rows.group_by([topic, partition]).aggregate([(offset, "min"), (offset, "max")]).to_pylist()
    return {
        (group[topic], group[partition]): range(group[f"{offset}_min"], group[f"{offset}_max"] + 1)
        for group in groups
        if group[topic] is not None
    }


class EachOnce:
    """Chooses one copy of each record among the files of a batch.

    Args:
        folder: The quarantine table.
        access: To its storage.
    """

    def __init__(self, folder: str, access: Access = NO_ACCESS) -> None:
        self._folder = folder
        self._access = access
        self._seen: dict[Partition, pa.Array] = {}

    def files(self, handed_in: Sequence[RejectedFile]) -> list[PartFile]:
        """The files to commit, some of them made anew; what is left out stays without a version."""
        kept = (self._kept(file) if self._is_suspect(file, handed_in) else file.part for file in handed_in)
        return [part for part in kept if part is not None]

    def _is_suspect(self, file: RejectedFile, handed_in: Sequence[RejectedFile]) -> bool:
        """Whether it may hold a record that another file holds."""
        for partition, stretch in file.stretches.items():
            others = [f.stretches[partition] for f in handed_in if f is not file and partition in f.stretches]
            if any(max(o.start, stretch.start) < min(o.stop, stretch.stop) for o in others):
                return True
        return False

    def _kept(self, file: RejectedFile) -> PartFile | None:
        objects = open_objects(self._folder, self._access)
        # A file holds what one task could keep in memory.
        content = obstore.get(objects, file.part.name).bytes()
        with pq.ParquetFile(pa.BufferReader(content)) as source:
            fresh = self._fresh(source.read(PLACE), file.stretches)
            if pc.all(fresh).as_py():
                return file.part
            name = f"part-{uuid4().hex}.parquet"
            return write_part(self._folder, name, source.schema_arrow, _rows(source, fresh), self._access)

    def _fresh(self, places: pa.Table, partitions: Iterable[Partition]) -> pa.BooleanArray:
        """Which rows are of records that were met in no file before."""
        topics, numbers, offsets = (column.combine_chunks() for column in places.columns)
        repeated = pa.array([False] * len(offsets))
        for partition in partitions:
            here = pc.and_(pc.equal(topics, partition[0]), pc.equal(numbers, partition[1]))
            met = self._seen.get(partition, pa.array([], pa.int64()))
            again = pc.is_in(offsets, value_set=met)
            repeated = pc.or_(repeated, pc.and_(here, again))
            self._seen[partition] = pa.concat_arrays([met, offsets.filter(here)])
        return pc.invert(repeated)


def _rows(source: pq.ParquetFile, chosen: pa.BooleanArray) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in source.iter_batches():
        yield batch.filter(chosen.slice(start, batch.num_rows))
        start += batch.num_rows
