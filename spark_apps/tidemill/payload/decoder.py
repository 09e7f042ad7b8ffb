"""The interface of all decoders: they return rows, and the rejected records with their reasons.

The result for a record depends only on the record and the schema, never on its neighbours, on the batch size
or on the mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidemill.errors import SpecError
from tidemill.payload.sieve import Sieve

# Maximum input bytes that are decoded at once. Arrow's string offsets end at 2 GiB and parsers keep several
# copies, so this is far below both. It is above what Spark passes at once (about 10 MB).
MAX_BLOCK_BYTES = 64 * 2**20

# Decodes one piece of the input to rows; the sieve knows their records.
Sift = Callable[[pa.Array], tuple[pa.RecordBatch, Sieve]]


@dataclass(frozen=True)
class Decoded:
    """The rows and the rejected records of one input array; each input position is in exactly one of them.

    Args:
        rows: The decoder's columns for the good records, in input order.
        kept: Position in the input of each row.
        rejected: Positions in the input of the other records, ascending.
        reasons: Reason for each of `rejected`: a stable code, with a field's path after a colon.
    """

    rows: pa.RecordBatch
    kept: pa.Int64Array
    rejected: pa.Int64Array
    reasons: list[str]


class Decoder(Protocol):
    """Decodes the records of one format."""

    @property
    def columns(self) -> pa.Schema:
        """Return the decoded columns."""

    def decode(self, values: pa.BinaryArray | pa.LargeBinaryArray) -> Decoded:
        """Decode every record or give a reason; never raises because of a record."""


def check_record_limit(max_record_bytes: int) -> int:
    """Return the maximum record size.

    Raises:
        SpecError: TIDE-SPEC-025, if it is out of range.
    """
    if not 0 < max_record_bytes <= MAX_BLOCK_BYTES:
        raise SpecError(
            "TIDE-SPEC-025",
            "The largest record size is out of range.",
            facts={"max_record_bytes": max_record_bytes},
            fix=f"use 1 to {MAX_BLOCK_BYTES} bytes",
        )
    return max_record_bytes


def decode_in_pieces(values: pa.Array, sift: Sift) -> Decoded:
    """Decode an input of any size, in pieces of at most `MAX_BLOCK_BYTES` or one record."""
    pieces = [(start, *sift(piece)) for start, piece in _pieces(values, 0)]
    if len(pieces) == 1:
        _, rows, sieve = pieces[0]
        positions, reasons = sieve.fallen()
        return Decoded(rows, sieve.positions, pa.array(positions, pa.int64()), reasons)
    kept: list[int] = []
    rejected: list[int] = []
    reasons = []
    for start, _, sieve in pieces:
        positions, why = sieve.fallen()
        kept += [start + position for position in sieve.positions.to_pylist()]
        rejected += [start + position for position in positions]
        reasons += why
    rows = pa.concat_batches([rows for _, rows, _ in pieces])
    return Decoded(rows, pa.array(kept, pa.int64()), pa.array(rejected, pa.int64()), reasons)


def _pieces(values: pa.Array, start: int) -> Iterator[tuple[int, pa.Array]]:
    if values.nbytes <= MAX_BLOCK_BYTES or len(values) <= 1:
        yield start, values
        return
    middle = len(values) // 2
    yield from _pieces(values.slice(0, middle), start)
    yield from _pieces(values.slice(middle), start + middle)
