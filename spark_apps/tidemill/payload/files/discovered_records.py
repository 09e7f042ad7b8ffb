"""Decode records of files whose columns are discovered.

CSV records are converted to JSON, so that the JSON decoder checks both.
"""

from __future__ import annotations

from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.csv_fields import CsvDialect, CsvSplitter
from tidemill.payload.csv_values import CsvValues
from tidemill.payload.decoder import MAX_BLOCK_BYTES, Decoded
from tidemill.payload.discovered import CsvForm, DiscoveredColumns
from tidemill.payload.files.records import FileRecords
from tidemill.payload.inferred_schema import Node, all_merged, inferred
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_text import RepeatedNameError, read_raw
from tidemill.payload.readable import drop_invalid_utf8, drop_null_and_oversized
from tidemill.payload.rescue import RescuingDecoder
from tidemill.payload.sieve import Sieve

_NO_COLUMNS: Node = {"type": "object", "properties": {}}

# Maximum size of a CSV record, in bytes. As JSON a character can take six times its space, and names are
# repeated.
MAX_CSV_BYTES = MAX_BLOCK_BYTES // 16


class CsvTexts:
    """Converts CSV records to JSON.

    Args:
        form: Form of the records.
        columns: The known columns, as JSON Schema.
    """

    def __init__(self, form: CsvForm, columns: Node) -> None:
        self._splitter = CsvSplitter(CsvDialect(form.separator))
        self._values = CsvValues(columns, form.hinted)

    def texts(self, records: FileRecords) -> tuple[pa.StringArray, dict[int, str]]:
        """Return the JSON text of each record, null if it has none, and the reasons for those without."""
        sieve = Sieve(records.values)
        if records.reasons or records.names is None:
            return pa.nulls(len(records.values), pa.string()), dict(records.reasons)
        drop_null_and_oversized(sieve, MAX_CSV_BYTES)
        drop_invalid_utf8(sieve)
        fields = self._splitter.fields(sieve, len(records.names))
        places = pc.index_in(pa.arange(0, len(records.values)), value_set=sieve.positions)
        texts = self._values.lines(records.names, fields).take(places)
        return texts, dict(zip(*sieve.fallen(), strict=True))


class DiscoveredRecords:
    """Decodes records, and reports new columns.

    Args:
        discovered: The known columns.
    """

    def __init__(self, discovered: DiscoveredColumns) -> None:
        self._discovered = discovered
        self._csv = None if discovered.csv is None else CsvTexts(discovered.csv, discovered.columns)
        self._decoder = _decoder(discovered)
        self._found: list[Node | None] = []

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of the rows."""
        return self._decoder.columns

    def decode(self, records: FileRecords) -> Decoded:
        """Decode records of files."""
        texts: pa.Array = records.values
        reasons: dict[int, str] = {}
        if self._csv is not None:
            texts, reasons = self._csv.texts(records)
            texts = texts.cast(pa.binary())
        decoded = self._decoded(texts, records)
        if not reasons:
            return decoded
        known = zip(decoded.rejected.to_pylist(), decoded.reasons, strict=True)
        why = [reasons.get(place, reason) for place, reason in known]
        return Decoded(decoded.rows, decoded.kept, decoded.rejected, why)

    def _decoded(self, texts: pa.BinaryArray, records: FileRecords) -> Decoded:
        if isinstance(self._decoder, JsonDecoder):
            return self._decoder.decode(texts)
        rescued = self._decoder.decode(texts, records.file_of)
        self._found.append(rescued.found)
        return rescued.decoded

    def finish(self) -> None:
        """Report the columns that were found, at the end of a pass."""
        found, self._found = all_merged(self._found), []
        if found is not None and self._discovered.wants_new:
            self._discovered.found.add(found)


def _decoder(discovered: DiscoveredColumns) -> RescuingDecoder | JsonDecoder:
    if discovered.keeps_names:
        return RescuingDecoder(discovered.columns, discovered.schema, finds=discovered.wants_new)
    return JsonDecoder(discovered.schema, MAX_BLOCK_BYTES)


def inferred_from(records: FileRecords, csv: CsvForm | None) -> Node | None:
    """Return the columns inferred from some records; broken records add none."""
    if csv is None:
        return all_merged(map(_inferred_from, records.values.to_pylist()))
    texts, _ = CsvTexts(csv, _NO_COLUMNS).texts(records)
    return all_merged(map(_inferred_from, chain(texts.drop_null().cast(pa.binary()).to_pylist())))


def _inferred_from(line: bytes) -> Node | None:
    try:
        record = read_raw(line.decode())
    except (RepeatedNameError, ValueError, RecursionError):
        return None
    return inferred(record) if isinstance(record, dict) else None
