"""Decode JSON lines with discovered columns: data that no column can store is rescued in the row.

A closed decoder accepts lines with only declared names and fitting values, which are usually all. Each
refused line is examined: data that the columns cannot store is taken out until the rest decodes. So the same
JSON decoder checks every value. A row's `_rescued_data` is JSON:

| in the record                                   | in the row                 | in `_rescued_data`     |
|-------------------------------------------------|----------------------------|------------------------|
| a name that no column has, also in another case | nothing                    | the value, by its name |
| the same with null                              | nothing                    | nothing                |
| a value that its column refuses                 | null                       | the value, by its path |
| such a value inside of an array                 | null in place of the array | the whole array        |
| such a name inside of an array                  | the rest of the array      | the whole array        |
| any of these                                    |                            | the file: `_file_path` |

Rescued numbers keep their spelling; in a column of doubles they become the nearest double. A number beyond
all doubles rejects the whole line. A name that is repeated in one object, and a field `_file_path` of the
record, cannot be rescued: such a line is rejected as a whole, like a line that is not an object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill.names import RESCUED_DATA
from tidemill.payload.decoder import MAX_BLOCK_BYTES, Decoded
from tidemill.payload.inferred_schema import Node, all_merged, inferred
from tidemill.payload.json_block import NOT_DECODABLE, UNDECLARED
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_framing import MALFORMED_JSON
from tidemill.payload.json_schema import EACH_ITEM, PayloadSchema
from tidemill.payload.json_text import RepeatedNameError, read_raw, strict_text_of, text_of

FILE_PATH = "_file_path"

FileOf = Callable[[int], str]

# Reasons of lines of which a part can be kept as a row.
_OF_A_VALUE = frozenset({"undeclared", "wrong_type", "not_finite", "out_of_range", "no_offset"})


@dataclass
class _Line:
    """A line in work: the part for the columns, the rescued part, and its possible new columns."""

    position: int
    rest: dict[str, Any]
    rescued: dict[str, Any]
    found: Node | None
    text: str
    rest_text: str = ""

    def leave_out(self, reason: str) -> bool:
        """Take out the value that the decoder has refused; return False if that is the whole line."""
        is_whole, self.rest_text = not self.rest_text, ""
        try:
            # An undeclared number may be one that the decoder cannot read, while the rest is good.
            if (is_whole and self.rescued and reason == NOT_DECODABLE) or (
                _is_of_a_value(reason) and self._move(reason.partition(":")[2])
            ):
                self.rest_text = text_of(self.rest)
        except RecursionError:
            return False
        return bool(self.rest_text)

    def _move(self, path: str) -> bool:
        """Take a value out of the rest; return False if it is missing. An array is moved as a whole."""
        *outer, name = path.partition(EACH_ITEM)[0].split(".")
        place, kept = self.rest, self.rescued
        for step in outer:
            if not isinstance(place.get(step), dict):
                return False
            place, kept = place[step], kept.setdefault(step, {})
        if name not in place:
            return False
        # An array that was rescued for another reason is already stored unchanged.
        kept.setdefault(name, place.pop(name))
        self.text = strict_text_of(self.rescued)
        return True

    def rescued_text(self, file: str) -> str | None:
        """Return the text for `_rescued_data`; None if the columns have everything."""
        if not self.rescued:
            return None
        return f'{self.text[:-1]},"{FILE_PATH}":{text_of(file)}}}'


@dataclass(frozen=True)
class Rescued:
    """The result for the lines.

    Args:
        decoded: Rows with `_rescued_data`, and the rejected lines.
        found: Possible columns of the names without a column; None if there are none.
    """

    decoded: Decoded
    found: Node | None


@dataclass(frozen=True)
class _Piece:
    """Some rows, the positions of their lines in the input, and the rescued data of each."""

    rows: pa.RecordBatch
    positions: list[int]
    rescued: list[str | None]


class RescuingDecoder:
    """Decodes lines of JSON.

    Args:
        columns: The columns as JSON Schema.
        schema: The same for the decoder.
        finds: True to infer columns for names without a column.
    """

    def __init__(self, columns: Node, schema: PayloadSchema, *, finds: bool = True) -> None:
        self._columns = columns
        self._finds = finds
        has_maps = any(pa.types.is_map(column.type) for column in schema.arrow_schema)
        # The names in a map are data, so a closed decoder would refuse them.
        self._closed = None if has_maps else JsonDecoder(schema, MAX_BLOCK_BYTES, is_closed=True)
        self._open = JsonDecoder(schema, MAX_BLOCK_BYTES)
        self.columns = schema.arrow_schema.append(pa.field(RESCUED_DATA, pa.string()))

    def decode(self, values: pa.BinaryArray, file_of: FileOf) -> Rescued:
        """Decode every line or give a reason.

        1. Decode lines with only declared names and fitting values.
        2. Decode the others; the decoder ignores their undeclared names, which are rescued separately.
        3. Take out a value that does not fit, and try again while there is another one.

        Args:
            values: The lines.
            file_of: Returns the file of the line at a position.
        """
        # 1.
        first = (self._closed or self._open).decode(values)
        rejected = dict(zip(first.rejected.to_pylist(), first.reasons, strict=True))
        again = [place for place, reason in rejected.items() if _is_of_a_value(reason)]
        if self._closed is None:
            again += first.kept.to_pylist()
            pieces = [_Piece(first.rows.slice(0, 0), [], [])]
        else:
            pieces = [_Piece(first.rows, first.kept.to_pylist(), [None] * len(first.rows))]
        # 2.
        lines = looked_at = self._read(values, again, rejected)
        texts = values.take(pa.array([line.position for line in lines], pa.int64()))
        while lines:
            decoded = self._open.decode(texts)
            pieces.append(_piece(decoded, lines, file_of))
            # 3.
            lines = _without_what_fails(decoded, lines, rejected)
            texts = pa.array([line.rest_text for line in lines], pa.binary())
        # A rejected line adds no columns.
        found = all_merged(line.found for line in looked_at if line.position not in rejected)
        return Rescued(self._joined(pieces, rejected), found)

    def _read(self, values: pa.BinaryArray, positions: list[int], rejected: dict[int, str]) -> list[_Line]:
        """Split the lines in two parts; a line that cannot be split stays rejected."""
        lines: list[_Line] = []
        for position, value in zip(
            positions, values.take(pa.array(positions, pa.int64())).to_pylist(), strict=True
        ):
            try:
                record = read_raw(value.decode())
                if record.get(FILE_PATH) is not None:
                    rejected[position] = f"reserved_name:{FILE_PATH}"
                    continue
                rest, undeclared = _parted(record, self._columns)
                found = inferred(undeclared) if self._finds else None
                lines.append(_Line(position, rest, undeclared or {}, found, strict_text_of(undeclared)))
                rejected.pop(position, None)
            except RepeatedNameError as error:
                rejected[position] = f"duplicate_field:{error.name}"
            except RecursionError:
                rejected[position] = NOT_DECODABLE
            except ValueError:
                # The closed decoder counts names before it checks the grammar, and it reads -NaN.
                if rejected.get(position, UNDECLARED).partition(":")[0] == UNDECLARED:
                    rejected[position] = MALFORMED_JSON
        return lines

    def _joined(self, pieces: list[_Piece], rejected: dict[int, str]) -> Decoded:
        rows = pa.concat_batches([piece.rows for piece in pieces])
        rescued = [text for piece in pieces for text in piece.rescued]
        kept = [position for piece in pieces for position in piece.positions]
        with_rescued = pa.RecordBatch.from_arrays(
            [*rows.columns, pa.array(rescued, pa.string())], schema=self.columns
        )
        places = sorted(rejected)
        reasons = [rejected[place] for place in places]
        return Decoded(with_rescued, pa.array(kept, pa.int64()), pa.array(places, pa.int64()), reasons)


def _is_of_a_value(reason: str) -> bool:
    return reason.partition(":")[0] in _OF_A_VALUE


def _piece(decoded: Decoded, lines: list[_Line], file_of: FileOf) -> _Piece:
    good = [lines[place] for place in decoded.kept.to_pylist()]
    rescued = [line.rescued_text(file_of(line.position)) for line in good]
    return _Piece(decoded.rows, [line.position for line in good], rescued)


def _without_what_fails(decoded: Decoded, lines: list[_Line], rejected: dict[int, str]) -> list[_Line]:
    """Return the lines without the value that was refused; reject lines that cannot be repaired."""
    again = []
    for place, reason in zip(decoded.rejected.to_pylist(), decoded.reasons, strict=True):
        line = lines[place]
        if line.leave_out(reason):
            again.append(line)
        else:
            rejected[line.position] = reason
    return again


def _parted(value: Any, node: Node) -> tuple[Any, Any]:
    """Return the part with known names, and the rest; None if there is no rest."""
    if isinstance(value, list) and "items" in node:
        parts = [_parted(item, node["items"]) for item in value]
        return [part for part, _ in parts], value if any(rest is not None for _, rest in parts) else None
    if not isinstance(value, dict) or "properties" not in node:
        return value, None
    held: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, inner in value.items():
        known = node["properties"].get(name)
        held_part, other = (None, inner) if known is None else _parted(inner, known)
        if known is not None:
            held[name] = held_part
        if other is not None:
            others[name] = other
    return held, others or None
