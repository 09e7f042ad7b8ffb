"""Infer columns from JSON values, as the JSON Schema that the decoder knows. Pure.

The result depends on the values alone, never on their order, on tasks or on batches, because `merged` is
commutative and associative. Only `extended` prefers one side: existing columns keep their type.

| values                                    | column                                             |
|-------------------------------------------|----------------------------------------------------|
| strings, true and false                   | string, boolean                                    |
| integers within int64; also fractions     | long; double                                       |
| objects, arrays                           | struct, array of the merged types of their values  |
| of several of these kinds                 | string; values of other types are rescued          |
| null, `[]`, `{}`, an integer beyond int64 | no column; values other than null are rescued      |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from tidemill.payload.json_text import RawNumber
from tidemill.payload.source_columns import RESERVED_NAMES

Node = dict[str, Any]

# Maximum depth. Deeper values infer no columns and are rescued, because columns are not named that deep.
MAX_DEPTH = 10

_STRING: Node = {"type": "string"}
_NUMBERS = ("integer", "number")
# Characters that Delta refuses in names, and those that paths use.
_NOT_IN_NAMES = frozenset(" ,;{}()\n\t=.[]`")


def inferred(value: object, depth: int = 0) -> Node | None:
    """Return the column inferred from one value; None if there is none."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, RawNumber):
        return _number(value)
    if isinstance(value, str):
        return _STRING
    if value is None or depth >= MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        known = {name: inferred(inner, depth + 1) for name, inner in value.items()}
        properties = {name: node for name, node in known.items() if node is not None}
        return {"type": "object", "properties": properties} if properties else None
    items = all_merged(inferred(item, depth + 1) for item in (value if isinstance(value, list) else ()))
    return None if items is None else {"type": "array", "items": items}


def _number(text: RawNumber) -> Node | None:
    if not text.lstrip("-").isdigit():
        return {"type": "number"} if text.is_json else None
    # Python refuses to parse thousands of digits.
    return {"type": "integer"} if len(text) <= 20 and -(2**63) <= int(text) < 2**63 else None


def merged(one: Node | None, other: Node | None) -> Node | None:
    """Return the column that fits both."""
    if one is None or other is None:
        return other if one is None else one
    kinds = {one["type"], other["type"]}
    if kinds == {"object"}:
        names = one["properties"].keys() | other["properties"].keys()
        pairs = ((name, one["properties"].get(name), other["properties"].get(name)) for name in names)
        return {"type": "object", "properties": {name: merged(a, b) for name, a, b in pairs}}
    if kinds == {"array"}:
        return {"type": "array", "items": merged(one["items"], other["items"])}
    if len(kinds) == 1:
        return one
    return {"type": "number"} if kinds == set(_NUMBERS) else _STRING


def all_merged(nodes: Iterable[Node | None]) -> Node | None:
    """Return the column that fits all; pairwise, because names that are data would take quadratic time."""
    layer = [node for node in nodes if node is not None]
    while len(layer) > 1:
        pairs = zip_longest(layer[::2], layer[1::2])
        layer = [node for pair in pairs if (node := merged(*pair)) is not None]
    return layer[0] if layer else None


def extended(known: Node, found: Node | None, *, is_top: bool = True) -> Node:
    """Return the known columns with the newly found ones, in the order of their names.

    A name that is known in another case, or that cannot name a column, is skipped. Of names that differ only
    by case, the first in order becomes the column.
    """
    if found is None or known["type"] != found["type"] or known["type"] not in ("object", "array"):
        return known
    if known["type"] == "array":
        return {**known, "items": extended(known["items"], found["items"], is_top=False)}
    if known["type"] == "object" and not ("properties" in known and "properties" in found):
        return known  # a map
    properties: dict[str, Node] = dict(known["properties"])
    taken = {name.lower() for name in properties}
    for name, node in sorted(found["properties"].items()):
        if name in properties:
            properties[name] = extended(properties[name], node, is_top=False)
        elif name.lower() not in taken and _names_column(name, is_top=is_top):
            column = _usable(node)
            if column is not None:
                properties[name] = column
                taken.add(name.lower())
    return {**known, "properties": properties}


def _usable(node: Node) -> Node | None:
    """Return a new column without invalid inner names; None if nothing is left."""
    if node["type"] == "array":
        items = _usable(node["items"])
        return None if items is None else {"type": "array", "items": items}
    if "properties" not in node:
        return node  # a map, or a plain value
    usable = extended({"type": "object", "properties": {}}, node, is_top=False)
    return usable if usable["properties"] else None


def _names_column(name: str, *, is_top: bool) -> bool:
    if not name or not name.isprintable() or len(name) > 255 or not _NOT_IN_NAMES.isdisjoint(name):
        return False
    return not (is_top and name.lower() in RESERVED_NAMES)


def leaves(node: Node, path: str = "") -> Iterator[str]:
    """Yield the paths of the columns with values: `place.site`, `parts[].size`."""
    if node["type"] == "array":
        yield from leaves(node["items"], f"{path}[]")
    elif "properties" in node:
        for name, inner in node["properties"].items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    else:
        yield path


def added(known: Node, newer: Node) -> list[str]:
    """Return the paths of the columns that only `newer` has."""
    return sorted(set(leaves(newer)) - set(leaves(known)))
