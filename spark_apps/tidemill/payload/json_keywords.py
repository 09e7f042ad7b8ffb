"""The keywords of JSON Schema that Tidemill enforces, and where.

The decoder checks types, required properties, and the formats that have a column type. All other keywords are
conditions on values, which a validator checks (`schema_conditions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

ALLOW_NO_OFFSET = "x-allow-no-offset"
ALLOW_NON_FINITE = "x-allow-non-finite"
DECIMAL = "x-decimal"

ANNOTATIONS = frozenset({"$schema", "$id", "$comment", "title", "description", "examples"})

# Keywords of a property that the decoder reads.
DECODED: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items"}),
    "string": frozenset({"format", ALLOW_NO_OFFSET}),
    "integer": frozenset(),
    "number": frozenset({ALLOW_NON_FINITE, DECIMAL}),
    "boolean": frozenset(),
}
# Formats with a column type; values of other formats are stored as texts.
COLUMN_FORMATS = frozenset({"date-time", "date"})
TEXT_FORMATS = frozenset(
    {"duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference"}
    | {"json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template"}
    | {"uuid"}
)

_ANY_TYPE = frozenset({"enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
_OF_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_CONDITIONS: Mapping[str, frozenset[str]] = {
    "object": frozenset(
        {"minProperties", "maxProperties", "propertyNames", "patternProperties"}
        | {"dependentRequired", "dependentSchemas"}
    ),
    "array": frozenset(["minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"]),
    "string": frozenset({"pattern", "minLength", "maxLength"}),
    "integer": _OF_NUMBERS,
    "number": _OF_NUMBERS,
    "boolean": frozenset(),
}
ALL_CONDITIONS = _ANY_TYPE.union(*_CONDITIONS.values())

# Keywords with one schema, several, or several by name.
_ONE = frozenset({"not", "if", "then", "else", "contains", "propertyNames", "items", "additionalProperties"})
_LIST = frozenset({"allOf", "anyOf", "oneOf"})
_MAP = frozenset({"properties", "patternProperties", "dependentSchemas"})
# Keywords inside of a condition, which only the validator checks and which never become a column.
INSIDE_CONDITIONS = (
    ANNOTATIONS
    | ALL_CONDITIONS
    | {"type", "format", "properties", "required", "items", "additionalProperties"}
)


def keywords_of(kind: str) -> frozenset[str]:
    """Return all keywords that are allowed next to a type."""
    return ANNOTATIONS | {"type"} | DECODED[kind] | _CONDITIONS[kind] | _ANY_TYPE


def inner_schemas(node: Mapping[str, Any], within: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas inside some keywords of a schema, with the keyword of each."""
    for keyword in node.keys() & within:
        held = node[keyword]
        if keyword in _LIST and isinstance(held, list):
            yield from ((keyword, inner) for inner in held)
        elif keyword in _MAP and isinstance(held, Mapping):
            yield from ((keyword, inner) for inner in held.values())
        elif keyword in _ONE:
            yield keyword, held


def conditions_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema for the validator, without the keywords that the decoder has checked.

    The names of properties stay, because `additionalProperties` refers to all others.
    """
    kept = {key: part for key, part in node.items() if key in ALL_CONDITIONS}
    if node.get("format") in TEXT_FORMATS:
        kept["format"] = node["format"]
    if node.get("additionalProperties") is False:
        kept["additionalProperties"] = False
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        kept["properties"] = {name: conditions_of(inner) for name, inner in properties.items()}
    if isinstance(node.get("items"), Mapping):
        kept["items"] = conditions_of(node["items"])
    if isinstance(node.get("additionalProperties"), Mapping):
        kept["additionalProperties"] = conditions_of(node["additionalProperties"])
    return kept


def has_conditions(node: Mapping[str, Any]) -> bool:
    """Return True if the result of `conditions_of` has anything to check."""
    held = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
    structure = {"properties", "items", "additionalProperties"}
    return (
        bool(node.keys() - structure)
        or node.get("additionalProperties") is False
        or any(has_conditions(inner) for inner in held if isinstance(inner, Mapping))
    )
