"""Hostile values for the fields of Airflow's trigger forms, and for which fields they are hostile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# What a shell, a template, a path or a log could trip over.
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

# Free text: any sentence of a person is one, and is only ever shown.
FREE_TEXT = ("reason",)
SENTENCES = ('"; rm -rf /', "{{ 7*7 }}", "$(id)", "../../x", "\u2025/\u2025/x", "\uff0e\uff0e/x")


def hostile_forms(fields: dict[str, Any], filled_in: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The form with one hostile value in each of its fields in turn.

    Args:
        fields: As Airflow's API tells them, with their JSON Schema.
        filled_in: Values that would be taken.
    """
    for name, field in fields.items():
        for value in HOSTILE:
            if not (_fits(field["schema"], value) or (name in FREE_TEXT and value in SENTENCES)):
                yield {**filled_in, name: value}


def _fits(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value is just what the field is for: true for a switch."""
    kinds = schema.get("type", [])
    return value is True and "boolean" in ([kinds] if isinstance(kinds, str) else kinds)
