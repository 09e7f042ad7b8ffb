"""What Scala hands over, for Python to go through."""

from __future__ import annotations

from typing import Any


def items(sequence: Any) -> list[Any]:
    """The items of one of Scala's sequences."""
    return [sequence.apply(place) for place in range(sequence.size())]
