"""Times in the progress that Spark reports for a query."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# The maximum year of Python's datetime is 9999; event times may be later.
_BEYOND = re.compile(r"\+?\d{5,}-")


def moment_of(text: str | None) -> datetime | None:
    """Return the time, at most the last one of the year 9999; None for None.

    Raises:
        ValueError: If the text is not a time.
    """
    if text is None:
        return None
    return datetime.max.replace(tzinfo=UTC) if _BEYOND.match(text) else datetime.fromisoformat(text)
