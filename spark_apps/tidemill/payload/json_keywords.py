"""The keywords of JSON Schema that Tidemill enforces, and who does.

Types, required properties and the formats that become a column of their own are the decoder's matter. All
others are conditions on values: a validator checks them (`schema_conditions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

ALLOW_NO_OFFSET = "x-allow-no-offset"
ALLOW_NON_FINITE = "x-allow-non-finite"
DECIMAL = "x-decimal"

ANNOTATIONS = frozenset({"$schema", "$id", "$comment", "title", "description", "examples"})

# What the decoder reads of a property.
DECODED: Mapping[str, frozenset[str]] = {
    "object": frozenset({"properties", "required", "additionalProperties"}),
    "array": frozenset({"items"}),
    "string": frozenset({"format", ALLOW_NO_OFFSET}),
    "integer": frozenset(),
    "number": frozenset({ALLOW_NON_FINITE, DECIMAL}),
    "boolean": frozenset(),
}
# Formats that are columns; they keep the values of others as texts.
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

# Keywords that hold one schema, several, or several by name.
_ONE = frozenset({"not", "if", "then", "else", "contains", "propertyNames", "items", "additionalProperties"})
_LIST = frozenset({"allOf", "anyOf", "oneOf"})
_MAP = frozenset({"properties", "patternProperties", "dependentSchemas"})
# Inside of a condition all of this is for the validator, and nothing becomes a column.
INSIDE_CONDITIONS = (
    ANNOTATIONS
    | ALL_CONDITIONS
    | {"type", "format", "properties", "required", "items", "additionalProperties"}
)


def keywords_of(kind: str) -> frozenset[str]:
    """All that may stand beside a type."""
    return ANNOTATIONS | {"type"} | DECODED[kind] | _CONDITIONS[kind] | _ANY_TYPE


def inner_schemas(node: Mapping[str, Any], within: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """The schemas that some keywords of a schema hold, and the keyword of each."""
    for keyword in node.keys() & within:
        held = node[keyword]
        if keyword in _LIST and isinstance(held, list):
            yield from ((keyword, inner) for inner in held)
        elif keyword in _MAP and isinstance(held, Mapping):
            yield from ((keyword, inner) for inner in held.values())
        elif keyword in _ONE:
            yield keyword, held


def conditions_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as the validator gets it: without what the decoder has checked.

    Names of properties stay, because `additionalProperties` speaks of all others.
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
    """Whether there is anything to check in what `conditions_of` gave."""
    held = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
    structure = {"properties", "items", "additionalProperties"}
    return (
        bool(node.keys() - structure)
        or node.get("additionalProperties") is False
        or any(has_conditions(inner) for inner in held if isinstance(inner, Mapping))
    )
