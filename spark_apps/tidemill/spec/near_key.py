"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Minimum similarity at which a name counts as a typing error of another. This is difflib's default, which
# finds one error in a short word and does not suggest unrelated names.
SIMILARITY = 0.6


def near_key(key: str, known: Iterable[str]) -> str | None:
    """Return the most similar name in `known`; None if none is similar."""
    return next(iter(difflib.get_close_matches(key, list(known), n=1, cutoff=SIMILARITY)), None)
