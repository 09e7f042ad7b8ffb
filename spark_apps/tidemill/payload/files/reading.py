"""Decode ranges of files to rows, with the decoders, the door and the quarantine of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator

from tidemill.errors import DataError
from tidemill.payload.decode import Decoding, event_time_limit
from tidemill.payload.decoder import Decoded
from tidemill.payload.door import Door, DoorPass
from tidemill.payload.files.byte_ranges import FileRange, ranges_of
from tidemill.payload.files.cutters import Cutter
from tidemill.payload.files.folder_columns import FolderColumns
from tidemill.payload.files.records import FileRecords, FileRejectedError, in_large_pieces
from tidemill.payload.json_framing import EMPTY
from tidemill.payload.late_rows import LateRows
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.timestamps import INSTANT
from tidemill.payload.typed_rows import rows_as_records
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to


@dataclass(frozen=True)
class FilePiece:
    """The result for some records of files.

    Args:
        decoded: The rows, and the rejected records.
        sources: The ranges.
        places: For each record, the index of its range in `sources`.
        values: The bytes of each record; None for columns of Parquet, ORC and Avro.
        lines: Line of each record, from 1, counted from the first record of its range. Null if it has none.
    """

    decoded: Decoded
    sources: tuple[FileRange, ...]
    places: pa.Int64Array
    values: pa.BinaryArray | None
    lines: pa.Int64Array

    @staticmethod
    def of_columns(source: FileRange, decoded: Decoded) -> FilePiece:
        """Return rows of a range whose records have no separate bytes and lines."""
        count = len(decoded.kept) + len(decoded.rejected)
        return FilePiece(decoded, (source,), pa.repeat(0, count), None, pa.nulls(count, pa.int64()))

    def rejecting(self, reasons: Mapping[int, str]) -> FilePiece:
        """Return the same piece without the records at these positions, which are rejected."""
        if not reasons:
            return self
        known = dict(zip(self.decoded.rejected.to_pylist(), self.decoded.reasons, strict=True))
        everything = {**known, **reasons}
        rejected = sorted(everything)
        stays = pc.invert(pc.is_in(self.decoded.kept, pa.array(rejected, pa.int64())))
        decoded = Decoded(
            self.decoded.rows.filter(stays),
            self.decoded.kept.filter(stays),
            pa.array(rejected, pa.int64()),
            [everything[place] for place in rejected],
        )
        return replace(self, decoded=decoded)


class FileReader(Protocol):
    """Reads files of one format."""

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of its rows."""

    def pieces(self, sources: Iterable[FileRange], rejected: RejectFile) -> Iterator[FilePiece]:
        """Read ranges; call `rejected` for those that cannot be read."""

    def lines_before(self, source: FileRange) -> int:
        """Return the number of lines of a file before the first record of a range."""

    def finish(self) -> None:
        """End a pass of a task, and report to the driver what was found in the files."""


RejectFile = Callable[[FileRange, str], None]

# Maximum bytes of a range's decoded rows that are kept in memory until its end is reached.
_KEPT_BYTES = 256 * 2**20

# Decodes records that were cut out of files.
DecodeRecords = Callable[[FileRecords], Decoded]


@dataclass(frozen=True)
class RecordReader:
    """Reads files whose records are cut out of their bytes.

    Args:
        cutter: Cuts files into records.
        decode: Decodes records.
        columns: Columns of the rows.
        finished: Called at the end of a pass.
    """

    cutter: Cutter
    decode: DecodeRecords
    columns: pa.Schema
    finished: Callable[[], None] = field(default=lambda: None)

    def pieces(self, sources: Iterable[FileRange], rejected: RejectFile) -> Iterator[FilePiece]:
        """See `FileReader`."""
        for records in in_large_pieces(self._cut(sources, rejected)):
            piece = FilePiece(
                self.decode(records), records.sources, records.places, records.values, records.lines
            )
            yield piece.rejecting(records.reasons)

    def _cut(self, sources: Iterable[FileRange], rejected: RejectFile) -> Iterator[FileRecords]:
        for source in sources:
            try:
                yield from self.cutter.records(source)
            except FileRejectedError as error:
                rejected(source, error.reason)

    def lines_before(self, source: FileRange) -> int:
        """See `FileReader`."""
        return self.cutter.lines_before(source)

    def finish(self) -> None:
        """See `FileReader`."""
        self.finished()


@dataclass(frozen=True)
class RangeReader:
    """Reads files whose records have no lines.

    Args:
        columns: Columns of the rows.
        read: Reads a range.
        finished: Called at the end of a pass.
    """

    columns: pa.Schema
    read: Callable[[FileRange], Iterator[FilePiece]]
    finished: Callable[[], None] = field(default=lambda: None)

    def pieces(self, sources: Iterable[FileRange], rejected: RejectFile) -> Iterator[FilePiece]:
        """See `FileReader`."""
        for source in sources:
            try:
                yield from self.read(source)
            except FileRejectedError as error:
                if source.is_first or not error.of_file:
                    rejected(source, error.reason)

    def lines_before(self, source: FileRange) -> int:  # noqa: ARG002  # there are no lines
        """See `FileReader`."""
        return 0

    def finish(self) -> None:
        """See `FileReader`."""
        self.finished()


def whole_ranges(
    source: FileRange, pieces: Iterator[FilePiece], damaged: tuple[type[BaseException], ...], name: str
) -> Iterator[FilePiece]:
    """Yield the pieces of a range after its end is reached, so that a damaged range gives no row at all.

    If a range needs more than `_KEPT_BYTES` of memory, its pieces are passed on as they come. If it is
    damaged after those, the batch fails.

    Args:
        source: The range.
        pieces: Its pieces.
        damaged: Errors of a damaged range.
        name: Name of the format.

    Raises:
        FileRejectedError: If the range is damaged.
        DataError: TIDE-DATA-013, if a part of it was passed on before.
    """
    kept: list[FilePiece] = []
    size = 0
    try:
        for piece in pieces:
            size += piece.decoded.rows.nbytes
            kept.append(piece)
            if size > _KEPT_BYTES:
                yield from kept
                kept = []
    except damaged as error:
        reason = damage(name, error)
        if size > _KEPT_BYTES:
            raise _damaged_behind_rows(source, reason) from error
        raise FileRejectedError(reason, of_file=False) from error
    yield from kept


def damage(name: str, error: BaseException) -> str:
    """Return the reason of a file that cannot be read."""
    return f"damaged_file:{name}: {str(error).partition(chr(10))[0][:200]}"


def _damaged_behind_rows(source: FileRange, reason: str) -> DataError:
    return DataError(
        "TIDE-DATA-013",
        "A large file is damaged behind its first rows. Nothing of the batch was written.",
        facts={"file": source.path, "reason": reason},
        fix="put the file there again, whole, under the same name; or skip it as the runbook says",
        runbook="source-files-gone",
    )


def file_decoding(
    pipeline: Pipeline,
    reads: tuple[FileReader, FolderColumns | None],
    quarantine: Quarantine,
    late_rows: LateRows | None = None,
    counter: Accumulator[int] | None = None,
) -> Decoding:
    """Return the decoding of file ranges to rows.

    Args:
        pipeline: The pipeline.
        reads: Reader of the files, and provider of columns from folders; None without such columns.
        quarantine: Quarantine for rejected records and files.
        late_rows: Sets late records aside; None to pass them on.
        counter: Counts the records; None if they are not counted.
    """
    reader, folders = reads
    stops = pipeline.spec.stops_at_invalid
    door = Door(quarantine, stops, event_time_limit(pipeline), late_rows)
    access = access_to(pipeline.layout.root)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        passage = _FilePass(door.open(), reader, folders)
        for batch in batches:
            yield from passage.rows(ranges_of(batch, access))
        passage.close()
        if counter is not None:
            counter.add(passage.records)

    return Decoding(read, reader.columns)


class _FilePass:
    """One pass of a task over ranges.

    Args:
        door: Receives rows and rejected records.
        reader: Reads the files.
        folders: Provides columns from folders.
    """

    def __init__(self, door: DoorPass, reader: FileReader, folders: FolderColumns | None) -> None:
        self._door = door
        self._reader = reader
        self._folders = folders
        self._lines_before: dict[tuple[str, int], int] = {}
        # Number of rows and of rejected records and files.
        self.records = 0

    def rows(self, sources: list[FileRange]) -> Iterator[pa.RecordBatch]:
        for piece in self._reader.pieces(sources, self._reject_file):
            passed = self._without_wrong_folders(piece)
            self._reject(passed)
            self.records += len(passed.decoded.rows)
            arrived, clock = self._times(passed)
            yield self._door.rows(passed.decoded.rows, partial(self._of_rows, passed), arrived, clock)

    def close(self) -> None:
        self._door.close()
        self._reader.finish()

    def _without_wrong_folders(self, piece: FilePiece) -> FilePiece:
        if self._folders is None:
            return piece
        places = piece.places.take(piece.decoded.kept)
        rows, wrong = self._folders.put(piece.decoded.rows, piece.sources, places)
        kept = zip(piece.decoded.kept.to_pylist(), places.to_pylist(), strict=True) if wrong else ()
        put = replace(piece, decoded=replace(piece.decoded, rows=rows))
        return put.rejecting({place: wrong[source] for place, source in kept if source in wrong})

    def _reject(self, piece: FilePiece) -> None:
        # A blank line of a JSON file is not a record.
        found = [
            (place, reason)
            for place, reason in zip(piece.decoded.rejected.to_pylist(), piece.decoded.reasons, strict=True)
            if reason != EMPTY
        ]
        if found:
            places = pa.array([place for place, _ in found], pa.int64())
            self.records += len(found)
            self._door.reject(self._records(piece, places), [reason for _, reason in found])

    def _reject_file(self, source: FileRange, reason: str) -> None:
        self.records += 1
        columns = {"file": pa.array([source.file]), "arrived_at": pa.array([source.modified], INSTANT)}
        self._door.reject(columns, [reason])

    def _of_rows(self, piece: FilePiece, rows: pa.Array) -> Mapping[str, pa.Array]:
        """Return the quarantine columns of the records of these rows."""
        records = self._records(piece, piece.decoded.kept.take(rows))
        return (
            records if piece.values is not None else {**records, **rows_as_records(piece.decoded.rows, rows)}
        )

    def _records(self, piece: FilePiece, places: pa.Array) -> dict[str, pa.Array]:
        """Return the quarantine columns of the records at these positions."""
        sources = [piece.sources[number] for number in piece.places.take(places).to_pylist()]
        lines = zip(piece.lines.take(places).to_pylist(), sources, strict=True)
        columns = {
            "file": pa.array([source.file for source in sources], pa.string()),
            "arrived_at": pa.array([source.modified for source in sources], INSTANT),
            "line": pa.array(
                [None if line is None else line + self._before(source) for line, source in lines], pa.int64()
            ),
        }
        return columns if piece.values is None else {**columns, "value": piece.values.take(places)}

    def _before(self, source: FileRange) -> int:
        if source.is_first:
            return 0
        key = (source.location, source.start)
        if key not in self._lines_before:
            self._lines_before[key] = self._reader.lines_before(source)
        return self._lines_before[key]

    def _times(self, piece: FilePiece) -> tuple[pa.TimestampArray, pa.TimestampArray]:
        """Return the arrival time of each row's file, and the time of the batch."""
        places = piece.places.take(piece.decoded.kept)
        arrived = pa.array([source.modified for source in piece.sources], INSTANT)
        clocks = pa.array([source.clock for source in piece.sources], INSTANT)
        return arrived.take(places), clocks.take(places)
