"""The known name that a wrong one is probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Share of letters in common from which a name counts as a typing error of another; difflib's own
# default, which finds one slip in a short word and does not propose strangers.
SIMILARITY = 0.6


def near_key(key: str, known: Iterable[str]) -> str | None:
    """The nearest of `known`; None if none is near."""
    return next(iter(difflib.get_close_matches(key, list(known), n=1, cutoff=SIMILARITY)), None)
