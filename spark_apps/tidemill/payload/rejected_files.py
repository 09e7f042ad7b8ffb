"""The files in which the tasks of one batch hand in rejected records; one copy of each record is committed.

A record is handed in more than once if a stage runs twice, if a transform uses its source twice (`union`, a
self-join: Spark reads the same offsets for each use), or if another attempt replaces a lost one.

A record is identified by topic, partition and offset, within one stream, because two event hubs with the same
name in two namespaces have the same positions. Each file records the offset ranges of its partitions, so
files that do not overlap, the usual case, are not opened.

Records of other sources have no position. There, repeated files are found by their content: if several tasks
for the same partition hand in equal files, those of only one task count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from uuid import uuid4

import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.storage.object_stores import NO_ACCESS, Access
from tidemill.storage.objects import open_objects
from tidemill.storage.parquet_part import PartFile, write_part
from tidemill.storage.row_values import row_values

# Columns that identify the record of a row.
PLACE = ["topic", "partition", "offset"]

Partition = tuple[str, int]
Known = Mapping[Partition, pa.Array]
NOTHING_KNOWN: Known = MappingProxyType({})

_NONE = pa.array([], pa.int64())


@dataclass(frozen=True)
class TaskTrace:
    """The task that handed in a file, and the values that are the same when another task repeats it.

    Args:
        attempt: Unique id of the task.
        partition: Number of the task in its stage.
        content: Digest of the records, without the time and run that set them aside.
    """

    attempt: int
    partition: int
    content: str


@dataclass(frozen=True)
class RejectedFile:
    """One handed-in file.

    Args:
        part: The file.
        stretches: First offset and end of the records of each partition.
        task: The task that reported records without a position.
        stream: Stream of the records.
    """

    part: PartFile
    stretches: Mapping[Partition, range]
    task: TaskTrace | None = None
    stream: str = ""


def stretches_of(batches: Iterable[pa.RecordBatch]) -> dict[Partition, range]:
    """Return first offset and end, by partition; empty for records that are not from a topic."""
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
        access: Credentials for its storage.
        known: Offsets by partition that the table already has, of one stream.
    """

    def __init__(self, folder: str, access: Access = NO_ACCESS, known: Known = NOTHING_KNOWN) -> None:
        self._folder = folder
        self._access = access
        self._known = known
        self._seen: dict[tuple[str, Partition], pa.Array] = {}

    def files(self, handed_in: Sequence[RejectedFile]) -> list[PartFile]:
        """Return the files to commit, some of them rewritten; the others stay outside of every version."""
        files = _of_one_task(handed_in)
        kept = (self._kept(file) if self._is_suspect(file, files) else file.part for file in files)
        return [part for part in kept if part is not None]

    def _is_suspect(self, file: RejectedFile, handed_in: Sequence[RejectedFile]) -> bool:
        """Return True if the file may have a record that another file has."""
        if not self._known.keys().isdisjoint(file.stretches):
            return True
        near = [other for other in handed_in if other is not file and other.stream == file.stream]
        for partition, stretch in file.stretches.items():
            others = [other.stretches[partition] for other in near if partition in other.stretches]
            if any(max(o.start, stretch.start) < min(o.stop, stretch.stop) for o in others):
                return True
        return False

    def _kept(self, file: RejectedFile) -> PartFile | None:
        objects = open_objects(self._folder, self._access)
        # The content fits in memory, because one task could hold it.
        content = obstore.get(objects, file.part.name).bytes()
        with pq.ParquetFile(pa.BufferReader(content)) as source:
            fresh = self._fresh(source.read(PLACE), file)
            if pc.all(fresh).as_py():
                return file.part
            name = f"part-{uuid4().hex}.parquet"
            return write_part(self._folder, name, source.schema_arrow, _rows(source, fresh), self._access)

    def _fresh(self, places: pa.Table, file: RejectedFile) -> pa.BooleanArray:
        """Return true for rows of records that no earlier file had."""
        topics, numbers, offsets = (column.combine_chunks() for column in places.columns)
        repeated = pa.array([False] * len(offsets))
        for partition in file.stretches:
            here = pc.and_(pc.equal(topics, partition[0]), pc.equal(numbers, partition[1]))
            met = self._seen.get((file.stream, partition), self._known.get(partition, _NONE))
            again = pc.is_in(offsets, value_set=met)
            repeated = pc.or_(repeated, pc.and_(here, again))
            self._seen[file.stream, partition] = pa.concat_arrays([met, offsets.filter(here)])
        return pc.invert(repeated)


def _of_one_task(handed_in: Sequence[RejectedFile]) -> list[RejectedFile]:
    """Return the files without equal ones of other tasks; one task may have equal records twice."""
    alike: dict[tuple[str, int, str], dict[int, list[RejectedFile]]] = {}
    for file in handed_in:
        if (task := file.task) is not None:
            tasks = alike.setdefault((file.stream, task.partition, task.content), {})
            tasks.setdefault(task.attempt, []).append(file)
    chosen = {file.part.name for tasks in alike.values() for file in max(tasks.values(), key=len)}
    return [file for file in handed_in if file.task is None or file.part.name in chosen]


def content_of(batches: Iterable[pa.RecordBatch], but: Collection[str]) -> str:
    """Return a digest of records, independent of their batches; `but` names columns that do not count."""
    rows = pa.Table.from_batches(batches)
    digest = hashlib.sha256()
    for row in row_values(rows.drop_columns(list(but))):
        digest.update(repr(row).encode())
    return digest.hexdigest()


def _rows(source: pq.ParquetFile, chosen: pa.BooleanArray) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in source.iter_batches():
        yield batch.filter(chosen.slice(start, batch.num_rows))
        start += batch.num_rows
