"""Lines of files whose columns are discovered, as rows and broken lines; Spark's readers do it for others.

Lines of JSON come as they are; a file of CSV comes whole, and its records become lines of JSON here.
From there on both are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from tidemill.payload.csv_files import PIECE_BYTES, CsvFiles, CsvForm
from tidemill.payload.decode import Stage
from tidemill.payload.decoder import MAX_BLOCK_BYTES
from tidemill.payload.discovered import DiscoveredColumns
from tidemill.payload.inferred_schema import Node, all_merged, inferred
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_framing import EMPTY
from tidemill.payload.json_text import RepeatedNameError, read_raw
from tidemill.payload.rescue import Rescued, RescuingDecoder
from tidemill.payload.source_columns import BROKEN_LINE, BROKEN_REASON, FILE, LINE, LINE_NUMBER

_NO_COLUMNS: Node = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class LineReading:
    """How lines become rows.

    Args:
        stage: Lines in; rows out, with broken lines beside them.
        columns: What comes out.
    """

    stage: Stage
    columns: StructType


@dataclass(frozen=True)
class _Records:
    """Records of files.

    Args:
        values: As they stand there.
        texts: As JSON; null where they are none.
        reasons: Why, by place.
        given: What the source gives beside them.
    """

    values: pa.BinaryArray
    texts: pa.BinaryArray
    reasons: Mapping[int, str]
    given: pa.RecordBatch


_Cut = Callable[[pa.RecordBatch], Iterator[_Records]]


def line_reading(discovered: DiscoveredColumns, lines: StructType) -> LineReading:
    """Read lines by the columns that were discovered.

    Args:
        discovered: The columns; takes what is found beside them.
        lines: What the source gives: the line, or the whole file of CSV, and columns that the door needs.
    """
    decoder = _decoder(discovered)
    given = StructType([field for field in lines if field.name != LINE])
    cut = _cut(discovered, given.names)
    if discovered.csv is not None:
        given = StructType([*given, StructField(LINE_NUMBER, LongType())])
    broken = [StructField(BROKEN_LINE, BinaryType()), StructField(BROKEN_REASON, StringType())]
    columns = StructType([*from_arrow_schema(decoder.columns), *broken, *given])
    found = discovered.found if discovered.wants_new else None

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told: list[Node | None] = []
        for records in chain.from_iterable(map(cut, batches)):
            read = _decode(decoder, records)
            told.append(read.found)
            yield _rows(records, read)
        everything = all_merged(told)
        if found is not None and everything is not None:
            found.add(everything)

    return LineReading(read, columns)


def _cut(discovered: DiscoveredColumns, names: list[str]) -> _Cut:
    """What makes records of what the source gives."""
    if discovered.csv is None:
        return lambda batch: iter([_Records(batch[LINE], batch[LINE], {}, batch.select(names))])
    files = CsvFiles(discovered.csv, discovered.columns)

    def cut(batch: pa.RecordBatch) -> Iterator[_Records]:
        given = batch.select(names)
        for file, content in enumerate(batch[LINE]):
            for piece in files.pieces(content.as_py()):
                beside = given.take(pa.repeat(file, len(piece.lines)))
                beside = beside.append_column(LINE_NUMBER, piece.lines)
                yield _Records(piece.values, piece.texts.cast(pa.binary()), piece.reasons, beside)

    return lambda batch: _of_many_files(cut(batch))


def _of_many_files(pieces: Iterator[_Records]) -> Iterator[_Records]:
    """The same in larger pieces: most of the time that a small file takes does not depend on its size."""
    some: list[_Records] = []
    size = 0
    for piece in pieces:
        some.append(piece)
        size += piece.values.nbytes + piece.texts.nbytes
        if size > PIECE_BYTES:
            yield _joined(some)
            some, size = [], 0
    if some:
        yield _joined(some)


def _joined(pieces: list[_Records]) -> _Records:
    starts = accumulate((len(piece.values) for piece in pieces), initial=0)
    reasons = {
        start + place: reason
        for start, piece in zip(starts, pieces, strict=False)
        for place, reason in piece.reasons.items()
    }
    return _Records(
        pa.concat_arrays([piece.values for piece in pieces]),
        pa.concat_arrays([piece.texts for piece in pieces]),
        reasons,
        pa.concat_batches([piece.given for piece in pieces]),
    )


def _decoder(discovered: DiscoveredColumns) -> RescuingDecoder | JsonDecoder:
    if discovered.keeps_names:
        return RescuingDecoder(discovered.columns, discovered.schema, finds=discovered.wants_new)
    return JsonDecoder(discovered.schema, MAX_BLOCK_BYTES)


def _decode(decoder: RescuingDecoder | JsonDecoder, records: _Records) -> Rescued:
    if isinstance(decoder, JsonDecoder):
        return Rescued(decoder.decode(records.texts), None)
    return decoder.decode(records.texts, records.given[FILE])


def _rows(records: _Records, read: Rescued) -> pa.RecordBatch:
    """Good rows, then broken lines; a blank line is no record."""
    decoded, given = read.decoded, records.given
    told = [
        (place, records.reasons.get(place, reason))
        for place, reason in zip(decoded.rejected.to_pylist(), decoded.reasons, strict=True)
        if reason != EMPTY
    ]
    broken = pa.array([place for place, _ in told], pa.int64())
    good, none = len(decoded.rows), len(told)
    arrays = [pa.concat_arrays([column, pa.nulls(none, column.type)]) for column in decoded.rows.columns]
    arrays.append(
        pa.concat_arrays([pa.nulls(good, pa.binary()), records.values.take(broken).cast(pa.binary())])
    )
    arrays.append(pa.array([*[None] * good, *(reason for _, reason in told)], pa.string()))
    places = pa.concat_arrays([decoded.kept, broken])
    arrays += [column.take(places) for column in given.columns]
    names = [*decoded.rows.schema.names, BROKEN_LINE, BROKEN_REASON, *given.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def inferred_from(lines: pa.BinaryArray, csv: CsvForm | None = None) -> Node | None:
    """What some lines, or files of CSV, say of their columns together; broken ones say nothing."""
    if csv is None:
        return all_merged(map(_inferred_from, lines.to_pylist()))
    files = CsvFiles(csv, _NO_COLUMNS)
    pieces = chain.from_iterable(files.pieces(content.as_py()) for content in lines)
    return all_merged(_of_texts(piece.texts) for piece in pieces)


def _of_texts(texts: pa.StringArray) -> Node | None:
    return inferred_from(texts.drop_null().cast(pa.binary()))


def _inferred_from(line: bytes) -> Node | None:
    try:
        record = read_raw(line.decode())
    except (RepeatedNameError, ValueError, RecursionError):
        return None
    return inferred(record) if isinstance(record, dict) else None
