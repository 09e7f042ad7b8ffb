"""Convert the default of a field to the value that fastavro would read for it.

A schema has its defaults as JSON: bytes are text with one character per byte, and a record is an object that
may omit fields with a default. fastavro uses the JSON itself, so one byte could become two.
"""

from __future__ import annotations

import math
from typing import Any

from tidemill.payload.avro_types import AvroType

_WHOLE = {"int": 2**31, "long": 2**63}


def default_value(declared: AvroType, default: Any) -> Any:
    """Return the value; numbers and bytes are without their logical type.

    Raises:
        ValueError: If the default is not of the type.
    """
    if declared.kind == "union":
        return _of_union(declared, default)
    if declared.kind == "record":
        return _of_record(declared, default)
    if declared.inner is not None:
        return _of_collection(declared, declared.inner, default)
    value = _plain(declared, default)
    if value is None and (declared.kind != "null" or default is not None):
        raise ValueError(f"not of the type {declared.kind}")
    return value


def _of_union(declared: AvroType, default: Any) -> Any:
    """Return the default of a union: since Avro 1.12 any branch may match, before that only the first."""
    for branch in declared.branches:
        try:
            return default_value(branch, default)
        except ValueError:
            continue
    raise ValueError("of none of the union's types")


def _of_record(declared: AvroType, default: Any) -> dict[str, Any]:
    if not isinstance(default, dict):
        raise ValueError("not an object, as a record needs")
    found = {}
    for field in declared.fields:
        if field.name not in default and not field.has_default:
            raise ValueError(f"without the field {field.name}")
        found[field.name] = default_value(field.type, default.get(field.name, field.default))
    return found


def _of_collection(declared: AvroType, inner: AvroType, default: Any) -> Any:
    if declared.kind == "array" and isinstance(default, list):
        return [default_value(inner, item) for item in default]
    if declared.kind == "map" and isinstance(default, dict):
        return {key: default_value(inner, value) for key, value in default.items()}
    raise ValueError(f"not of the type {declared.kind}")


def _plain(declared: AvroType, default: Any) -> Any:
    """Return the value, or None if it has another type."""
    kind = declared.kind
    if kind == "boolean":
        return default if isinstance(default, bool) else None
    if isinstance(default, str):
        return _of_text(declared, default)
    if isinstance(default, bool) or not isinstance(default, int | float):
        return None
    if kind in _WHOLE:
        limit = _WHOLE[kind]
        return default if isinstance(default, int) and -limit <= default < limit else None
    return _finite(default) if kind in ("float", "double") else None


def _of_text(declared: AvroType, default: str) -> str | bytes | None:
    if declared.kind == "string":
        return default
    if declared.kind == "enum":
        return default if default in declared.symbols else None
    if declared.kind not in ("bytes", "fixed"):
        return None
    try:
        raw = default.encode("latin-1")
    except UnicodeEncodeError:
        return None
    return raw if declared.kind == "bytes" or len(raw) == declared.size else None


def _finite(default: float) -> float | None:
    try:
        value = float(default)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None
