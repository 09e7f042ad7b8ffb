"""Parse and write JSON without loss: numbers keep their spelling, and repeated names are refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class RawNumber(str):
    """A number in its original spelling, including NaN and Infinity, which are not JSON."""

    __slots__ = ()

    @property
    def is_json(self) -> bool:
        """Return True if it is a number in JSON."""
        return self[-1].isdigit()


class RepeatedNameError(Exception):
    """An object has a name twice.

    Args:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def read_raw(text: str) -> Any:
    """Parse a text.

    Raises:
        RepeatedNameError: If an object at any depth has a name twice.
        ValueError: If it is not JSON, or has half of a surrogate pair.
        RecursionError: If it is nested too deep.
    """
    value = _DECODER.decode(text)
    if SURROGATE_ESCAPE.search(text):
        text_of(value).encode()
    return value


def text_of(value: Any) -> str:
    """Return the JSON text of a value of `read_raw`."""
    if isinstance(value, RawNumber):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{text_of(name)}:{text_of(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def strict_text_of(value: Any) -> str:
    """Return the same as JSON that every reader accepts: NaN and Infinity are strings."""
    return text_of(_strict(value))


def _strict(value: Any) -> Any:
    if isinstance(value, RawNumber):
        return value if value.is_json else str(value)
    if isinstance(value, dict):
        return {name: _strict(inner) for name, inner in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list) else value


def primitives_as_strings(text: bytes, columns: pa.DataType) -> bytes:
    """Return a JSON record in which numbers and booleans become strings if their column is a string.

    A text that is not JSON stays unchanged, and so does a record with a repeated name.
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
