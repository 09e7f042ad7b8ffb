"""How a backfill is to be carried out: in which pieces, and when its rows come into the tables."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.backfill.chunks import Chunk
from tidemill.backfill.plan import Publish


@dataclass(frozen=True)
class Manner:
    """What a person chooses of it.

    Args:
        chunk: Size of the chunks, each of which is committed on its own; None for all at once.
        publish: `later` stages the rows until they are published.
    """

    chunk: Chunk | None = None
    publish: Publish = "now"


# What is done if nobody says otherwise.
AT_ONCE = Manner()
