"""Avro schemas in the few words that a test needs."""

from __future__ import annotations

from typing import Any


def record(*fields: dict[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


def field(name: str, kind: Any, **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **keys}


def logical(kind: Any, name: str, **keys: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **keys}
