r"""Convert CSV texts to JSON values, so that the same JSON decoder checks them. Pure.

A text becomes a value of another type only if the conversion loses nothing:

| text                                                    | type of an undeclared column   | in JSON     |
|---------------------------------------------------------|--------------------------------|-------------|
| empty                                                   | null                           | left out    |
| `true`, `false`                                         | boolean                        | unchanged   |
| an integer within int64, as it is usually written       | integer                        | unchanged   |
| a fraction that a double prints the same: 1.5, 2.0      | number                         | unchanged   |
| anything else: 007, +1, 1.10, 1e5, NaN, empty in quotes | text                           | as a string |

A string column accepts every text. In a column of another type, a text that is not such a value becomes a
string, which the decoder refuses, so it is rescued as written in the file. In a column with an inferred type,
a number counts by the same table. In a column that is hinted as double, every JSON number counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.inferred_schema import Node

_BOOLEAN = r"^(?:true|false)$"
_INTEGER = r"^(?:0|-?[1-9]\d{0,17})$"
_LONG_INTEGER = r"^-?[1-9]\d{18}$"
# A double can store every integer with this many digits.
_SHORT_INTEGER = r"^(?:0|-?[1-9]\d{0,14})$"
_FRACTION = r"^-?\d[\d.e+-]*[.e][\d.e+-]*$"
_NUMBER = r"^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$"

# Characters that JSON cannot have unescaped in a string.
_ESCAPED = r'["\\\x00-\x1f]'


class CsvValues:
    """Makes lines of JSON.

    Args:
        columns: The known columns, as JSON Schema; for an unknown name, the texts decide.
        hinted: Names of columns whose type was not inferred.
    """

    def __init__(self, columns: Node, hinted: Collection[str]) -> None:
        self._columns = columns["properties"]
        self._hinted = hinted

    def lines(self, names: Sequence[str], fields: Sequence[pa.StringArray]) -> pa.StringArray:
        """Return one object for each record; the fields have the names of their file's header."""
        members = []
        for name, texts in zip(names, fields, strict=True):
            bare = self._bare(name, texts)
            literals = pc.if_else(bare, texts, _strings(texts))
            member = pc.binary_join_element_wise(
                json.dumps(name, ensure_ascii=False) + ":", literals, ",", ""
            )
            members.append(pc.coalesce(member, ""))
        # Not `null_handling="skip"`: if all are null, pyarrow 26 leaves out the whole row.
        inner = pc.utf8_rtrim(pc.binary_join_element_wise(*members, ""), ",")
        return pc.binary_join_element_wise("{", inner, "}", "")

    def _bare(self, name: str, texts: pa.StringArray) -> pa.BooleanArray:
        """Return true for texts that are JSON values without quotes."""
        node = self._columns.get(name)
        kind = "any" if node is None else "string" if "x-decimal" in node else node["type"]
        if kind == "boolean":
            return _matches(texts, _BOOLEAN)
        if kind == "integer":
            return _integers(texts)
        if kind == "number":
            return _matches(texts, _NUMBER) if name in self._hinted else _doubles(texts)
        if kind == "any":
            plain = pc.or_(_matches(texts, _BOOLEAN), _integers(texts))
            return pc.or_(plain, _those(texts, _FRACTION, _is_double))
        return pa.repeat(pa.scalar(False), len(texts))


def _strings(texts: pa.StringArray) -> pa.StringArray:
    """Return the texts as JSON strings."""
    places = pc.indices_nonzero(_matches(texts, _ESCAPED))
    strings = pc.binary_join_element_wise('"', texts, '"', "")
    if len(places) == 0:
        return strings
    escaped = pa.array([json.dumps(text, ensure_ascii=False) for text in texts.take(places).to_pylist()])
    return pc.replace_with_mask(strings, pc.is_in(pa.arange(0, len(texts)), places.cast("int64")), escaped)


def _integers(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.or_(_matches(texts, _INTEGER), _those(texts, _LONG_INTEGER, _is_int64))


def _doubles(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.or_(_matches(texts, _SHORT_INTEGER), _those(texts, _FRACTION, _is_double))


def _is_int64(text: str) -> bool:
    return -(2**63) <= int(text) < 2**63


def _is_double(text: str) -> bool:
    try:
        return repr(float(text)) == text
    except ValueError:
        return False


def _matches(texts: pa.StringArray, pattern: str) -> pa.BooleanArray:
    return pc.match_substring_regex(texts, pattern)


def _those(texts: pa.StringArray, pattern: str, are: Callable[[str], bool]) -> pa.BooleanArray:
    """Return true for texts that match and pass a check that a pattern cannot express."""
    places = pc.indices_nonzero(_matches(texts, pattern)).cast("int64")
    good = zip(places.to_pylist(), texts.take(places).to_pylist(), strict=True)
    those = pa.array([place for place, text in good if are(text)], pa.int64())
    return pc.is_in(pa.arange(0, len(texts)), those)
