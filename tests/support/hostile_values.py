"""Hostile values for the fields of Airflow's trigger forms, and for which fields they are hostile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Texts that could break a shell, a template, a path or a log.
HOSTILE = (
    '"; rm -rf /',
    "{{ 7*7 }}",
    "$(id)",
    "../../x",
    "two\nlines",
    "x" * 10_000,
    "\u2025/\u2025/x",  # two dots in one character
    "\uff0e\uff0e/x",  # wide dots
    ["start"],
    {"$ref": "file:///etc/passwd"},
    True,
    -1,
)

# Free text: any sentence of a user is valid, and it is only shown.
FREE_TEXT = ("reason",)
SENTENCES = ('"; rm -rf /', "{{ 7*7 }}", "$(id)", "../../x", "\u2025/\u2025/x", "\uff0e\uff0e/x")


# Values of fields that have no default and no list to choose from.
GIVEN = {"backup": "20260101t000000000000z", "hold": "by-hand", "from": "earliest", "partitions": 2}


def hostile_forms(fields: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each field in turn, and the form with a hostile value in it.

    Args:
        fields: Fields from Airflow's API, with default and JSON Schema.
    """
    filled_in = {name: taken(name, field) for name, field in fields.items() if field["value"] is None}
    given = {name: value for name, value in filled_in.items() if value is not None}
    for name, field in fields.items():
        for value in HOSTILE:
            if not (_fits(field["schema"], value) or (name in FREE_TEXT and value in SENTENCES)):
                yield name, {**given, name: value}


def taken(name: str, field: dict[str, Any]) -> Any:
    """Return a valid value for a required field; None if the field may stay empty."""
    choices = [choice for choice in field["schema"].get("enum", []) if choice is not None]
    may_be_empty = "null" in field["schema"].get("type", [])
    return choices[0] if choices else None if may_be_empty else GIVEN.get(name)


def _fits(schema: dict[str, Any], value: Any) -> bool:
    """Return True if a value is valid for the field: true for a switch."""
    kinds = schema.get("type", [])
    return value is True and "boolean" in ([kinds] if isinstance(kinds, str) else kinds)
