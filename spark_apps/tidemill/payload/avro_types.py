"""An Avro schema as a graph of types with full names.

This module checks only the form of a schema. `avro_schema.py` decides which types can be columns.

The rules are those of the Avro specification 1.12 (<https://avro.apache.org/docs/1.12.0/specification/>).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})

_ALLOW_NON_FINITE = "x-allow-non-finite"


@dataclass(eq=False)
class AvroType:
    """One type. A recursive record contains itself.

    Args:
        kind: `int`, `record`, `union` and so on.
        logical: Declared logical type. It may be unknown, or invalid for this type.
        precision: Declared digits of a decimal.
        scale: Declared digits of a decimal after the point.
        name: Full name of a record, an enum or a fixed.
        aliases: Full names of its aliases.
        inner: Type of an array's items or of a map's values.
        branches: Types of a union.
        fields: Fields of a record.
        symbols: Symbols of an enum.
        default: Symbol that an enum uses for an unknown one.
        size: Bytes of a fixed.
    """

    kind: str
    logical: str | None = None
    precision: Any = None
    scale: Any = 0
    name: str = ""
    aliases: frozenset[str] = frozenset()
    inner: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0


@dataclass(eq=False)
class AvroField:
    """One field of a record.

    Args:
        name: Its name.
        type: Its type.
        aliases: Other names that writers may use.
        has_default: True if there is a default, which may be null.
        default: The default as JSON.
        non_finite: True if NaN and infinity are kept.
    """

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None
    non_finite: bool = False


def parse_avro(document: Any) -> AvroType:
    """Return the type that a document declares.

    Raises:
        ValueError: If it is not an Avro schema.
    """
    parser = _Parser()
    found = parser.type_of(document, "")
    for items in parser.items:
        # A block of a few bytes could announce 2^62 of these items.
        if _may_be_empty(items, ()):
            raise ValueError("an array has items that take no bytes")
    return found


def plain_union(declared: AvroType) -> tuple[AvroType, bool]:
    """Return the type next to null, and True if null is allowed; any other union stays unchanged."""
    if declared.kind != "union":
        return declared, False
    others = [branch for branch in declared.branches if branch.kind != "null"]
    allows_null = len(others) < len(declared.branches)
    return (others[0] if len(others) == 1 else declared), allows_null


def _may_be_empty(declared: AvroType, outside: tuple[AvroType, ...]) -> bool:
    """Return True if some value is encoded in no bytes."""
    if declared.kind == "record":
        if declared in outside:
            return False
        return all(_may_be_empty(one.type, (*outside, declared)) for one in declared.fields)
    return declared.kind == "null" or (declared.kind == "fixed" and declared.size == 0)


class _Parser:
    """Parses one document; names are known after their definition."""

    def __init__(self) -> None:
        self.named: dict[str, AvroType] = {}
        self.items: list[AvroType] = []

    def type_of(self, declared: Any, namespace: str) -> AvroType:
        """Return a type, by name or as it is defined here."""
        if isinstance(declared, list):
            return self._union(declared, namespace)
        if isinstance(declared, str):
            return AvroType(declared) if declared in PRIMITIVES else self._referred(declared, namespace)
        if not isinstance(declared, Mapping) or "type" not in declared:
            raise ValueError(f"no type: {_shortened(declared)}")
        kind = declared["type"]
        if not isinstance(kind, str):
            return self.type_of(kind, namespace)
        if kind in NAMED or kind == "error":
            return self._defined(declared, "record" if kind == "error" else kind, namespace)
        if kind in ("array", "map"):
            return self._collection(declared, kind, namespace)
        if kind not in PRIMITIVES:
            return self._referred(kind, namespace)
        return AvroType(kind, **_logical(declared))

    def _referred(self, name: str, namespace: str) -> AvroType:
        """Return a type that was defined before; as in Java, also by its name without a namespace."""
        for known in (full_name(name, namespace), name):
            if known in self.named:
                return self.named[known]
        raise ValueError(f"unknown type: {_shortened(name)}")

    def _union(self, declared: list[Any], namespace: str) -> AvroType:
        branches = tuple(self.type_of(branch, namespace) for branch in declared)
        kinds = [branch.name or branch.kind for branch in branches]
        nested = any(branch.kind == "union" for branch in branches)
        if nested or not kinds or len(set(kinds)) < len(kinds):
            raise ValueError(f"a union of {', '.join(kinds) or 'nothing'}")
        return AvroType("union", branches=branches)

    def _collection(self, declared: Mapping[str, Any], kind: str, namespace: str) -> AvroType:
        key = "items" if kind == "array" else "values"
        if key not in declared:
            raise ValueError(f"{kind} without {key}")
        inner = self.type_of(declared[key], namespace)
        if kind == "array":
            self.items.append(inner)
        return AvroType(kind, inner=inner)

    def _defined(self, declared: Mapping[str, Any], kind: str, namespace: str) -> AvroType:
        name = full_name(_text(declared, "name"), declared.get("namespace", namespace) or "")
        if name in self.named:
            raise ValueError(f"the type {name} is defined twice")
        inside = name.rpartition(".")[0]
        aliases = frozenset(full_name(alias, inside) for alias in _texts(declared.get("aliases", [])))
        found = AvroType(kind, name=name, aliases=aliases, **_logical(declared))
        self.named[name] = found
        if kind == "record":
            found.fields.extend(self._fields(declared, inside))
        elif kind == "enum":
            found.symbols = tuple(_texts(declared.get("symbols")))
            found.default = declared.get("default")
        else:
            found.size = _size(declared.get("size"))
        return found

    def _fields(self, declared: Mapping[str, Any], namespace: str) -> list[AvroField]:
        fields = declared.get("fields")
        if not isinstance(fields, list):
            raise ValueError("a record without fields")
        found = [self._field(one, namespace) for one in fields]
        if len({one.name for one in found}) < len(found):
            raise ValueError("a record has two fields of one name")
        return found

    def _field(self, declared: Any, namespace: str) -> AvroField:
        if not isinstance(declared, Mapping) or "type" not in declared:
            raise ValueError(f"no field: {_shortened(declared)}")
        return AvroField(
            _text(declared, "name"),
            self.type_of(declared["type"], namespace),
            tuple(_texts(declared.get("aliases", []))),
            "default" in declared,
            declared.get("default"),
            bool(declared.get(_ALLOW_NON_FINITE)),
        )


def _logical(declared: Mapping[str, Any]) -> dict[str, Any]:
    logical = declared.get("logicalType")
    if not isinstance(logical, str):
        return {}
    return {"logical": logical, "precision": declared.get("precision"), "scale": declared.get("scale", 0)}


def full_name(name: str, namespace: Any) -> str:
    """Return a name with its namespace, unless it has one."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _text(declared: Mapping[str, Any], key: str) -> str:
    value = declared.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"no {key}: {_shortened(declared)}")
    return value


def _texts(declared: Any) -> Iterable[str]:
    if not isinstance(declared, list) or not all(isinstance(one, str) for one in declared):
        raise ValueError(f"no list of names: {_shortened(declared)}")
    return declared


def _size(declared: Any) -> int:
    if not isinstance(declared, int) or isinstance(declared, bool) or declared < 0:
        raise ValueError(f"no size: {_shortened(declared)}")
    return declared


def _shortened(declared: object) -> str:
    return ascii(declared)[:100]
