"""JSON lines whose columns are discovered: what no column holds is found, and kept beside the row.

A closed decoder reads the lines first: those that have nothing but declared names and fitting values, mostly
all. What it refuses is looked at line by line: what the columns do not hold is taken out, until the rest
decodes. So the one JSON decoder judges every value, here too. A row's `_rescued_data` is JSON:

| in the record                                   | in the row                 | in `_rescued_data`     |
|-------------------------------------------------|----------------------------|------------------------|
| a name that no column has, also in another case | nothing                    | the value, by its name |
| the same with null                              | nothing                    | nothing                |
| a value that its column refuses                 | null                       | the value, by its path |
| such a value inside of an array                 | null in place of the array | the whole array        |
| such a name inside of an array                  | the rest of the array      | the whole array        |
| any of these                                    |                            | the file: `_file_path` |

Numbers stay as they are written. A name twice in one object, and an own `_file_path`, cannot be kept there:
such a line is rejected whole, like one that is no object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidemill.names import RESCUED_DATA
from tidemill.payload.decoder import MAX_BLOCK_BYTES, Decoded
from tidemill.payload.inferred_schema import Node, inferred, merged
from tidemill.payload.json_block import NOT_DECODABLE
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import EACH_ITEM, PayloadSchema
from tidemill.payload.json_text import RepeatedNameError, read_raw, strict_text_of, text_of

FILE_PATH = "_file_path"

# Reasons of lines of which a part can be kept as a row.
_OF_A_VALUE = frozenset({"undeclared", "wrong_type", "not_finite", "out_of_range", "no_offset"})


@dataclass
class _Line:
    """A line that is looked at: what columns hold, and what they do not."""

    position: int
    rest: dict[str, Any]
    rescued: dict[str, Any] = field(default_factory=dict)

    def move(self, path: str) -> bool:
        """Take a value out of the rest; False if it is not there. Of an array the whole goes."""
        *outer, name = path.partition(EACH_ITEM)[0].split(".")
        place, kept = self.rest, self.rescued
        for step in outer:
            if not isinstance(place.get(step), dict):
                return False
            place, kept = place[step], kept.setdefault(step, {})
        if name not in place:
            return False
        # An array that was rescued for another reason is there as it came.
        kept.setdefault(name, place.pop(name))
        return True


@dataclass(frozen=True)
class Rescued:
    """What became of the lines.

    Args:
        decoded: Rows with `_rescued_data`, and the lines that are none.
        found: What the names without a column would be as columns; None if there are none.
    """

    decoded: Decoded
    found: Node | None


class RescuingDecoder:
    """Decodes lines of JSON.

    Args:
        columns: The columns as JSON Schema.
        schema: The same for the decoder.
    """

    def __init__(self, columns: Node, schema: PayloadSchema) -> None:
        self._columns = columns
        has_maps = any(pa.types.is_map(column.type) for column in schema.arrow_schema)
        # Names of a map are the data's own: a closed decoder would refuse them.
        self._closed = None if has_maps else JsonDecoder(schema, MAX_BLOCK_BYTES, is_closed=True)
        self._open = JsonDecoder(schema, MAX_BLOCK_BYTES)
        self.columns = schema.arrow_schema.append(pa.field(RESCUED_DATA, pa.string()))

    def decode(self, values: pa.BinaryArray, files: pa.StringArray) -> Rescued:
        """Decode every line or say why not."""
        plain = (self._closed or self._open).decode(values)
        rejected = dict(zip(plain.rejected.to_pylist(), plain.reasons, strict=True))
        if self._closed is None:
            looked_at = [*plain.kept.to_pylist(), *_with_values(rejected)]
            plain = Decoded(plain.rows.slice(0, 0), plain.kept.slice(0, 0), plain.rejected, plain.reasons)
        else:
            looked_at = _with_values(rejected)
        if not looked_at:
            return Rescued(self._with_rescued(plain, [None] * len(plain.rows)), None)
        for position in looked_at:
            rejected.pop(position, None)
        lines, found = self._read(values, looked_at, rejected)
        kept, texts = self._fitting(lines, files, rejected)
        return Rescued(self._joined(plain, kept, texts, rejected), found)

    def _read(
        self, values: pa.BinaryArray, positions: list[int], rejected: dict[int, str]
    ) -> tuple[list[_Line], Node | None]:
        """The lines without undeclared names, and what these are."""
        lines: list[_Line] = []
        found: Node | None = None
        for position, value in zip(positions, values.take(pa.array(positions)).to_pylist(), strict=True):
            looked_at = self._looked_at(position, value.decode())
            if isinstance(looked_at, str):
                rejected[position] = looked_at
                continue
            found = merged(found, inferred(looked_at.rescued))
            lines.append(looked_at)
        return lines, found

    def _looked_at(self, position: int, text: str) -> _Line | str:
        """The line in two parts, or why it cannot be."""
        try:
            record = read_raw(text)
            if record.get(FILE_PATH) is not None:
                return f"reserved_name:{FILE_PATH}"
            rest, undeclared = _parted(record, self._columns)
            strict_text_of(undeclared)
        except RepeatedNameError as error:
            return f"duplicate_field:{error.name}"
        except RecursionError:
            return NOT_DECODABLE
        return _Line(position, rest, undeclared or {})

    def _fitting(
        self, lines: list[_Line], files: pa.StringArray, rejected: dict[int, str]
    ) -> tuple[list[Decoded], list[str | None]]:
        """Rows of the lines, in pieces, and the rescued data of each; what does not fit is taken out."""
        pieces: list[Decoded] = []
        texts: list[str | None] = []
        while lines:
            decoded = self._open.decode(pa.array([text_of(line.rest) for line in lines], pa.binary()))
            good = [lines[place] for place in decoded.kept.to_pylist()]
            positions = pa.array([line.position for line in good], pa.int64())
            pieces.append(Decoded(decoded.rows, positions, decoded.rejected, decoded.reasons))
            texts += [_rescued_text(line, files) for line in good]
            again = []
            for place, reason in zip(decoded.rejected.to_pylist(), decoded.reasons, strict=True):
                kind, _, path = reason.partition(":")
                if kind in _OF_A_VALUE and lines[place].move(path):
                    again.append(lines[place])
                else:
                    rejected[lines[place].position] = reason
            lines = again
        return pieces, texts

    def _with_rescued(self, decoded: Decoded, texts: list[str | None]) -> Decoded:
        arrays = [*decoded.rows.columns, pa.array(texts, pa.string())]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.columns)
        return Decoded(rows, decoded.kept, decoded.rejected, decoded.reasons)

    def _joined(
        self, plain: Decoded, pieces: list[Decoded], texts: list[str | None], rejected: dict[int, str]
    ) -> Decoded:
        parts = [plain, *pieces]
        rows = pa.concat_batches([part.rows for part in parts])
        kept = pa.concat_arrays([part.kept for part in parts])
        places = sorted(rejected)
        whole = Decoded(rows, kept, pa.array(places, pa.int64()), [rejected[place] for place in places])
        return self._with_rescued(whole, [*[None] * len(plain.rows), *texts])


def _with_values(rejected: dict[int, str]) -> list[int]:
    return [place for place, reason in rejected.items() if reason.partition(":")[0] in _OF_A_VALUE]


def _parted(value: Any, node: Node) -> tuple[Any, Any]:
    """What the columns have names for, and the rest of it; None if there is no rest."""
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


def _rescued_text(line: _Line, files: pa.StringArray) -> str | None:
    if not line.rescued:
        return None
    return strict_text_of({**line.rescued, FILE_PATH: files[line.position].as_py()})
