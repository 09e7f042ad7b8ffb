"""Options of a backfill: its chunks, and the time of publication."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.backfill.chunks import Chunk
from tidemill.backfill.plan import Publish


@dataclass(frozen=True)
class Manner:
    """Options that a user chooses.

    Args:
        chunk: Size of the chunks, each of which is committed separately; None for all at once.
        publish: `later` stages the rows until they are published.
    """

    chunk: Chunk | None = None
    publish: Publish = "now"


# The default options.
AT_ONCE = Manner()
