"""Explain why one record is wrong, with the standard library's JSON reader.

`explain` proves and never guesses. A reason means that `pyarrow.json` also refuses the record, or would
misread one of its decimals (`decimals.py`). None means "not proven". So the decoder may drop an explained
record without asking pyarrow, in a few microseconds instead of the 0.1 ms of a pyarrow call, and the result
is the same either way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

import pyarrow as pa

from tidemill.payload.decimals import DECIMAL_TEXT, holds
from tidemill.payload.json_framing import MALFORMED_JSON
from tidemill.payload.json_schema import EACH_ITEM, Path, path_text
from tidemill.payload.json_text import SURROGATE_ESCAPE
from tidemill.payload.whole_numbers import is_whole

# Only the spelling of an integer (`1.0`) is wrong, which `pyarrow.json` refuses.
OTHERWISE_SPELLED = "otherwise_spelled"

# pyarrow.json reads these numbers, but json.loads does not.
_ONLY_PYARROW_READS = re.compile(r"-?\bInf\b|-NaN\b")


# Python types that json.loads returns for each kind of value.
_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "map": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int, Decimal),
    "number": (int, float, Decimal),
    "boolean": (bool,),
    "decimal": (int, float, Decimal, str),
}


@dataclass(frozen=True)
class Expected:
    """One declared value in plain Python, because checking Arrow types for each record is slow.

    Args:
        kind: Name of the type in JSON Schema.
        path: Path of the value.
        properties: Properties of an object, in the schema's order.
        item: Item of an array or a map.
        decimal: Type of a decimal.
        is_closed: True to refuse an object with an undeclared name, at any depth.
    """

    kind: str
    path: Path
    properties: Mapping[str, Expected]
    item: Expected | None
    decimal: pa.Decimal128Type | None = None
    is_closed: bool = False

    @classmethod
    def of(cls, declared: pa.DataType, path: Path = (), *, is_closed: bool = False) -> Expected:
        """Return the expected value for an Arrow type of the JSON parser."""
        if pa.types.is_struct(declared):
            properties = {
                field.name: cls.of(field.type, (*path, field.name), is_closed=is_closed) for field in declared
            }
            return cls("object", path, properties, None, is_closed=is_closed)
        if pa.types.is_map(declared):
            return cls("map", path, {}, cls.of(declared.item_type, (*path, EACH_ITEM)))
        if pa.types.is_list(declared):
            return cls(
                "array", path, {}, cls.of(declared.value_type, (*path, EACH_ITEM), is_closed=is_closed)
            )
        if pa.types.is_decimal(declared):
            return cls("decimal", path, {}, None, declared)
        kinds = {pa.int64(): "integer", pa.float64(): "number", pa.bool_(): "boolean"}
        return cls(kinds.get(declared, "string"), path, {}, None)


class _Object(dict[str, object]):
    """A JSON object that remembers its repeated names."""

    repeated: frozenset[str] = frozenset()


def explain(text: str, expected: Expected, unreadable: str | None = None) -> str | None:
    """Return why a framed record is refused; None if that is not proven here.

    Args:
        text: The record.
        expected: Its expected form.
        unreadable: Result for a record that perhaps only `pyarrow.json` can read.

    Reasons: `malformed_json`, `duplicate_field:<path>`, `wrong_type:<path>`, `out_of_range:<path>`, and
    `undeclared:<path>` for closed objects. If several fields are wrong, the first in the schema's order
    counts. If nothing is wrong, `otherwise_spelled` means that an integer is not spelled with digits only.
    """
    try:
        document = json.loads(text, object_pairs_hook=_object, parse_int=_whole, parse_float=_fraction)
        if SURROGATE_ESCAPE.search(text):
            json.dumps(document, ensure_ascii=False, default=str).encode()
    except RecursionError:
        return unreadable
    except ValueError:  # includes UnicodeEncodeError: half of a surrogate pair
        return unreadable if _ONLY_PYARROW_READS.search(text) else MALFORMED_JSON
    found = _violation(expected, document)
    return OTHERWISE_SPELLED if found is None and _is_otherwise_spelled(expected, document) else found


def lacks_required(text: str, path: Path) -> bool:
    """Return True if a good record lacks the last step of `path`, which also shows as null in a column."""
    try:
        document = json.loads(_ONLY_PYARROW_READS.sub("NaN", text), parse_int=str)
    except RecursionError:  # hundreds of nested arrays in an undeclared field: read as null
        return False
    return _lacks(document, path)


def read_integer(digits: str) -> int:
    """Return an integer; one beyond int64 may become another one beyond it."""
    # Python refuses to parse thousands of digits, while pyarrow accepts them in undeclared fields. Any
    # integer with more characters than int64's longest (20) is beyond int64, and so is this one.
    return int(digits) if len(digits) <= 20 else 2**64


def _whole(digits: str) -> int | Decimal:
    # Every digit of a decimal counts; no other type can store so many.
    return int(digits) if len(digits) <= 20 else Decimal(digits)


def _fraction(digits: str) -> Decimal | float:
    try:
        return Decimal(digits)
    except ArithmeticError:  # an exponent of many digits
        return float(digits)


def _object(pairs: list[tuple[str, object]]) -> _Object:
    result = _Object(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        result.repeated = frozenset(name for name in names if names.count(name) > 1)
    return result


def _violation(expected: Expected, value: object) -> str | None:
    if value is None:
        return None
    if not _fits(expected.kind, value):
        return f"wrong_type:{path_text(expected.path)}"
    if expected.decimal is not None and not _is_held(value, expected.decimal):
        return f"out_of_range:{path_text(expected.path)}"
    if isinstance(value, _Object):
        return _violation_inside(expected, value)
    if isinstance(value, list) and expected.item is not None:
        item_expected = expected.item
        return next(filter(None, (_violation(item_expected, item) for item in value)), None)
    return None


def _violation_inside(expected: Expected, value: _Object) -> str | None:
    if expected.item is not None:
        if value.repeated:
            return f"duplicate_field:{path_text(expected.item.path)}"
        return next(filter(None, (_violation(expected.item, item) for item in value.values())), None)
    for name, inner in expected.properties.items():
        if name in value.repeated:
            return f"duplicate_field:{path_text(inner.path)}"
        found = _violation(inner, value.get(name))
        if found is not None:
            return found
    undeclared = value.keys() - expected.properties.keys() if expected.is_closed else ()
    return f"undeclared:{path_text((*expected.path, min(undeclared)))}" if undeclared else None


def _fits(kind: str, value: object) -> bool:
    if not isinstance(value, _PYTHON_TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    if kind == "decimal" and isinstance(value, str):
        return DECIMAL_TEXT.fullmatch(value) is not None
    if kind != "integer":
        return True
    return is_whole(str(value)) if isinstance(value, Decimal) else -(2**63) <= cast(int, value) < 2**63


def _is_otherwise_spelled(expected: Expected, value: object) -> bool:
    """Return True if a good record has an integer with a fraction or an exponent."""
    if isinstance(value, dict):
        if expected.item is not None:
            item = expected.item
            return any(_is_otherwise_spelled(item, inner) for inner in value.values())
        return any(
            _is_otherwise_spelled(inner, value.get(name)) for name, inner in expected.properties.items()
        )
    if isinstance(value, list) and expected.item is not None:
        item = expected.item
        return any(_is_otherwise_spelled(item, inner) for inner in value)
    return expected.kind == "integer" and isinstance(value, Decimal)


def _is_held(value: object, declared: pa.Decimal128Type) -> bool:
    # A float is a constant that only pyarrow can check, or has an exponent that pyarrow refuses.
    return isinstance(value, float) or holds(declared, str(value))


def _lacks(value: object, path: Path) -> bool:
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        return any(_lacks(item, rest) for item in value)
    if not isinstance(value, dict):
        return False
    if step not in value:
        return not rest
    return bool(rest) and _lacks(value[step], rest)
