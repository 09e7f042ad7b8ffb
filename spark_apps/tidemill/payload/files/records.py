"""Records of files, cut out of their bytes, before they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.decoder import MAX_BLOCK_BYTES
from tidemill.payload.files.byte_ranges import BLOCK_BYTES, FileRange
from tidemill.payload.readable import OVERSIZED

# Maximum bytes that the quarantine keeps of a record that is too long to be decoded. The file has the rest.
KEPT_OF_OVERSIZED = 2**20


class FileRejectedError(Exception):
    """No record of a range can be read.

    Args:
        reason: Reason for the quarantine.
        of_file: True if the reason applies to every range of the file, so that only the first one reports it.
    """

    def __init__(self, reason: str, *, of_file: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.of_file = of_file


@dataclass(frozen=True)
class FileRecords:
    """Records of some ranges.

    Args:
        values: The bytes of each record, as in the file.
        lines: Number of the first line of each record, from 1, counted from the first record of its range.
        sources: The ranges.
        places: For each record, the index of its range in `sources`.
        reasons: Reasons of the records that the cutting rejects, by position.
        names: Names of the fields, if the file begins with a header.
    """

    values: pa.BinaryArray
    lines: pa.Int64Array
    sources: tuple[FileRange, ...]
    places: pa.Int64Array
    reasons: Mapping[int, str] = field(default_factory=dict)
    names: tuple[str, ...] | None = None

    def file_of(self, record: int) -> str:
        """Return the URI under which the file of a record arrived."""
        place: int = self.places[record].as_py()
        return self.sources[place].file

    @staticmethod
    def of(
        source: FileRange,
        values: pa.BinaryArray,
        lines: pa.Int64Array,
        reason: str | None = None,
        names: tuple[str, ...] | None = None,
    ) -> FileRecords:
        """Return records of one range, all of them good or all rejected for the same reason."""
        reasons = {} if reason is None else dict.fromkeys(range(len(values)), reason)
        return FileRecords(values, lines, (source,), pa.repeat(0, len(values)), reasons, names)


@dataclass(frozen=True)
class Cut:
    """Records at the beginning of a buffer.

    Args:
        values: Their bytes.
        lines: Number of the first line of each record, from 0.
        used: Number of bytes of the buffer up to their end.
        used_lines: Lines in those bytes.
    """

    values: pa.BinaryArray
    lines: pa.Int64Array
    used: int
    used_lines: int


# Cuts the records off a buffer; the flag is True if no more bytes follow it.
CutBuffer = Callable[[bytes, bool], Cut]


def cut_stream(source: FileRange, blocks: Iterable[bytes], cut: CutBuffer) -> Iterator[FileRecords]:
    """Cut the bytes of a range, which begin with a record, into records.

    A record that is longer than `MAX_BLOCK_BYTES` is rejected, and the next one begins after its line.
    """
    buffer, line = b"", 1
    is_skipping = False
    for block, is_last in _with_last(blocks):
        buffer += block
        if is_skipping:
            _, _, buffer = buffer.partition(b"\n")
            is_skipping = not buffer and not is_last
            line += not is_skipping
        found = cut(buffer, is_last)
        if len(found.values):
            yield FileRecords.of(source, found.values, pc.add(found.lines, line))
        buffer, line = buffer[found.used :], line + found.used_lines
        if len(buffer) > MAX_BLOCK_BYTES:
            kept = pa.array([buffer[:KEPT_OF_OVERSIZED]], pa.binary())
            yield FileRecords.of(source, kept, pa.array([line]), OVERSIZED)
            buffer, is_skipping = b"", True


def _with_last(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield each block, with True for the last one; one empty block if there are none."""
    before: bytes | None = None
    for block in blocks:
        if before is not None:
            yield before, False
        before = block
    yield before or b"", True


def in_large_pieces(records: Iterable[FileRecords]) -> Iterator[FileRecords]:
    """Yield the same records in fewer pieces, because decoding has a fixed cost per piece."""
    some: list[FileRecords] = []
    size = 0
    for piece in records:
        if some and (size + piece.values.nbytes > BLOCK_BYTES or piece.names != some[0].names):
            yield joined(some)
            some, size = [], 0
        some.append(piece)
        size += piece.values.nbytes
    if some:
        yield joined(some)


def joined(pieces: Sequence[FileRecords]) -> FileRecords:
    """Join pieces whose fields have the same names."""
    if len(pieces) == 1:
        return pieces[0]
    starts = list(accumulate((len(piece.values) for piece in pieces), initial=0))
    shifts = accumulate((len(piece.sources) for piece in pieces), initial=0)
    reasons = {
        start + place: reason
        for start, piece in zip(starts, pieces, strict=False)
        for place, reason in piece.reasons.items()
    }
    return FileRecords(
        pa.concat_arrays([piece.values for piece in pieces]),
        pa.concat_arrays([piece.lines for piece in pieces]),
        tuple(source for piece in pieces for source in piece.sources),
        pa.concat_arrays([pc.add(piece.places, shift) for piece, shift in zip(pieces, shifts, strict=False)]),
        reasons,
        pieces[0].names,
    )
