"""The columns of a Spark DDL text such as `device string, position struct<x: double, y: double>`."""

from __future__ import annotations

import re
from pathlib import Path

from tidemill.errors import SpecError

_OPENING, _CLOSING = "<(", ">)"


def column_types(ddl: str, file: Path) -> dict[str, str]:
    """Top-level columns and their types in lower case, in order. Types are Spark's to check.

    Args:
        ddl: The text.
        file: Where it stands, for errors.

    Raises:
        SpecError: TIDE-SPEC-031, if a column has no type, stands twice, or brackets do not match.
    """
    try:
        return {name: kind.lower() for name, kind in split_columns(ddl).items()}
    except ValueError as error:
        raise SpecError(
            "TIDE-SPEC-031",
            "The columns of a files source cannot be read.",
            facts={"file": file, "key": "source.files.schema", "reason": error},
            fix="write Spark DDL, e.g. `device string, signal double, at timestamp`",
        ) from error


def split_columns(ddl: str) -> dict[str, str]:
    """Names and types as they are written, in order; also of what stands inside of `struct<…>`.

    Raises:
        ValueError: What is wrong.
    """
    columns: dict[str, str] = {}
    known: set[str] = set()
    for part in split_parts(ddl):
        match = re.match(r"\s*(?:`([^`]+)`|(\w+))(?:\s*:\s*|\s+)(\S.*?)\s*$", part, re.DOTALL)
        if match is None:
            raise ValueError(f"each column is `name type`; this is not: {part.strip()[:60]!a}")
        name = match.group(1) or match.group(2)
        if name.lower() in known:
            raise ValueError(f"the column {name!a} stands twice")
        known.add(name.lower())
        columns[name] = match.group(3)
    return columns


def levels_of(kind: str) -> int:
    """Return how many levels of structs, arrays and maps a type has; of DDL, or of Arrow as text."""
    deepest = depth = 0
    for character in re.sub(r"`[^`]*`", "", kind):
        depth += (character == "<") - (character == ">")
        deepest = max(deepest, depth)
    return deepest


def split_parts(ddl: str) -> list[str]:
    """The text between the commas that stand outside of brackets."""
    parts, depth = [""], 0
    for character in ddl:
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if depth != 0:
        raise ValueError("its brackets do not match")
    return parts
