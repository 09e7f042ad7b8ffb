"""Conversion of Scala collections to Python."""

from __future__ import annotations

from typing import Any


def items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(place) for place in range(sequence.size())]
