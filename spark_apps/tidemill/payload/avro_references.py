"""Combine an Avro schema with the schemas that it refers to, as one document. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.payload.avro_types import NAMED, PRIMITIVES, full_name

_INNER = ("items", "values")


def inlined(document: Any, referred: Iterable[Any]) -> Any:
    """Return the document, with each type of another schema defined at its first use.

    Args:
        document: The schema.
        referred: Schemas that the document and they refer to, in any order. Types are found by their full
            names, because the name of a registry's reference is only a label.

    Raises:
        ValueError: If a type has two definitions.
    """
    known: dict[str, Any] = {}
    for other in (*referred, document):
        _collect(other, "", known)
    return _Inliner(known).of(document, "")


def _collect(declared: Any, namespace: str, known: dict[str, Any]) -> None:
    """Record each definition with its namespace."""
    if isinstance(declared, list):
        for branch in declared:
            _collect(branch, namespace, known)
    if not isinstance(declared, Mapping):
        return
    if _is_definition(declared):
        name = _name_of(declared, namespace)
        namespace = name.rpartition(".")[0]
        if known.setdefault(name, declared) != declared:
            raise ValueError(f"{name} has two definitions")
    for part in _parts(declared):
        _collect(part, namespace, known)


def _is_definition(declared: Mapping[str, Any]) -> bool:
    kind = declared.get("type")
    return (
        isinstance(kind, str) and (kind in NAMED or kind == "error") and isinstance(declared.get("name"), str)
    )


def _name_of(declared: Mapping[str, Any], namespace: str) -> str:
    return full_name(declared["name"], declared.get("namespace", namespace))


def _parts(declared: Mapping[str, Any]) -> list[Any]:
    """Return the types inside of a type."""
    parts = [declared[key] for key in _INNER if key in declared]
    if not isinstance(declared.get("type"), str):
        parts.append(declared.get("type"))
    fields = declared.get("fields")
    if isinstance(fields, list):
        parts += [field.get("type") for field in fields if isinstance(field, Mapping)]
    return parts


class _Inliner:
    """Copies a document in the order in which a parser reads it."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known
        self._defined: set[str] = set()

    def of(self, declared: Any, namespace: str) -> Any:
        """Return a type whose names are all defined before their use."""
        if isinstance(declared, list):
            return [self.of(branch, namespace) for branch in declared]
        if isinstance(declared, str):
            return self._referred(declared, namespace)
        if not isinstance(declared, Mapping):
            return declared
        if _is_definition(declared):
            return self._definition(declared, _name_of(declared, namespace))
        copied = {key: self.of(part, namespace) if key in _INNER else part for key, part in declared.items()}
        if "type" in copied:
            kind = copied["type"]
            copied["type"] = kind if kind in ("array", "map") else self.of(kind, namespace)
        return copied

    def _referred(self, name: str, namespace: str) -> Any:
        if name in PRIMITIVES:
            return name
        for known in (full_name(name, namespace), name):
            if known in self._defined:
                return known
            if known in self._known:
                return self._definition(self._known[known], known)
        return name

    def _definition(self, declared: Mapping[str, Any], name: str) -> Any:
        if name in self._defined:
            return name
        self._defined.add(name)
        namespace = name.rpartition(".")[0]
        # With an explicit namespace, a type means the same inside of any other type.
        copied = {**declared, "name": name.rpartition(".")[2], "namespace": namespace}
        if isinstance(copied.get("fields"), list):
            copied["fields"] = [self._field(field, namespace) for field in copied["fields"]]
        return copied

    def _field(self, field: Any, namespace: str) -> Any:
        return (
            {**field, "type": self.of(field.get("type"), namespace)} if isinstance(field, Mapping) else field
        )
