"""JSON as text and back without losing anything: numbers stay as they are written, names are there once."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class RawNumber(str):
    """A number as it is written, also NaN and Infinity, which are none in JSON."""

    __slots__ = ()

    @property
    def is_json(self) -> bool:
        """Whether it is a number in JSON."""
        return self[-1].isdigit()


class RepeatedNameError(Exception):
    """An object has a name twice.

    Args:
        name: Which.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def read_raw(text: str) -> Any:
    """Parse a text.

    Raises:
        RepeatedNameError: If an object at any depth has a name twice.
        ValueError: If it is no JSON, or has half of a surrogate pair.
        RecursionError: If it is too deep.
    """
    value = _DECODER.decode(text)
    if SURROGATE_ESCAPE.search(text):
        text_of(value).encode()
    return value


def text_of(value: Any) -> str:
    """The text of what `read_raw` gives."""
    if isinstance(value, RawNumber):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{text_of(name)}:{text_of(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def strict_text_of(value: Any) -> str:
    """The same as JSON that every reader takes: NaN and Infinity are strings."""
    return text_of(_strict(value))


def _strict(value: Any) -> Any:
    if isinstance(value, RawNumber):
        return value if value.is_json else str(value)
    if isinstance(value, dict):
        return {name: _strict(inner) for name, inner in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list) else value


def primitives_as_strings(text: bytes, columns: pa.DataType) -> bytes:
    """Return a JSON record in which numbers and booleans are strings where a column is one.

    A text that is not JSON stays as it is, and so does a record that has a name twice.
    """
    try:
        return text_of(_as_strings(read_raw(text.decode()), columns)).encode()
    except (RepeatedNameError, ValueError, RecursionError):
        return text


def _as_strings(value: Any, declared: pa.DataType) -> Any:
    if pa.types.is_string(declared) and isinstance(value, RawNumber | bool):
        return json.dumps(value) if isinstance(value, bool) else str(value)
    if pa.types.is_struct(declared) and isinstance(value, dict):
        known = {field.name: field.type for field in declared}
        return {
            name: _as_strings(inner, known[name]) if name in known else inner for name, inner in value.items()
        }
    if pa.types.is_list(declared) and isinstance(value, list):
        return [_as_strings(item, declared.value_type) for item in value]
    if pa.types.is_map(declared) and isinstance(value, dict):
        return {name: _as_strings(inner, declared.item_type) for name, inner in value.items()}
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedNameError(next(name for name in names if names.count(name) > 1))
    return found


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=RawNumber, parse_float=RawNumber, parse_constant=RawNumber
)
