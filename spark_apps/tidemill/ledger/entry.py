"""The ledger entry: one JSON document in the `userMetadata` of each Delta commit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

VERSION = 1


class OffsetRange(BaseModel):
    """What a batch read of one source: Spark's offset documents, `start` exclusive of the batch before.

    Args:
        start: Where it began.
        end: Where it ended.
        topic_ids: Id that the broker gave each topic when it was made; without topics whose id it does not
            tell. Offsets say nothing about a topic of the same name and another id.
    """

    model_config = ConfigDict(frozen=True)

    start: Any = None
    end: Any = None
    topic_ids: dict[str, str] | None = None


class Code(BaseModel):
    """What ran: digest of transform and schema files, digest of the declaration, Tidemill's version."""

    model_config = ConfigDict(frozen=True)

    tidemill: str
    digest: str
    spec: str


class Shape(BaseModel):
    """What of the declaration a checkpoint depends on: Spark goes on with the old one, or wrongly.

    Args:
        source: Kind of the source.
        event_time: Column of the watermark.
        output_mode: Spark's.
        shuffle_partitions: Partitions of stateful operators.
        tables: Tables that are written.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    source: str
    event_time: str | None = None
    output_mode: str
    shuffle_partitions: int
    tables: tuple[str, ...] = ()


class LedgerEntry(BaseModel):
    """What one commit did. `rows` and `event_time` are unknown beforehand to Spark's writer."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = VERSION
    pipeline: str
    output: str
    mode: Literal["stream", "incremental", "backfill"]
    run_id: str
    generation: str | None = None
    query_id: str | None = None
    epoch: int | None = None
    batch_id: int | None = None
    sources: dict[str, OffsetRange] = {}
    rows: int | None = None
    watermark: datetime | None = None
    event_time: dict[Literal["min", "max"], datetime] | None = None
    code: Code
    shape: Shape | None = None

    def to_text(self) -> str:
        """The text that goes into the commit."""
        return self.model_dump_json(exclude_none=True)


def parse_entry(text: object) -> LedgerEntry | None:
    """Read the text of a commit; None if Tidemill did not write it."""
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        return LedgerEntry.model_validate_json(text)
    except ValidationError:
        return None
