"""What a stream has committed to a table since its last event: one event, however many batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit, History, open_table
from tidemill.names import Layout

# Tells events of streams from those of incremental runs and backfills, which are of the same table.
STREAM_MODE = "stream"

# Commits looked through where nothing was told before; else, all since then.
FIRST_COMMITS = 1000


class Told(BaseModel):
    """What an earlier event has told.

    Args:
        mode: Whose event it is.
        version: Version of the table.
        told_at: Moment of the run that told it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    mode: str
    version: int
    told_at: AwareDatetime

    def is_due(self, every: timedelta, now: datetime) -> bool:
        """Whether the next event may be told. Both moments are those of schedules, so no second is lost."""
        return now - self.told_at >= every


@dataclass(frozen=True)
class StreamEvent:
    """What was committed.

    Args:
        pipeline: By which stream.
        table: To which table.
        version: Its newest version that a batch made.
        after_version: The version that was told before; None if none was.
        rows: Rows written; None if a commit does not tell.
        batches: How many commits.
        sources: First start and last end of what was read of each source, in the newest generation.
        generation: That generation.
    """

    pipeline: str
    table: str
    version: int
    after_version: int | None
    rows: int | None
    batches: int
    sources: Mapping[str, Any]
    generation: str | None

    def as_document(self, told_at: datetime) -> dict[str, Any]:
        """As it stands in the event, to be read again as `Told`."""
        return {"mode": STREAM_MODE, **asdict(self), "told_at": told_at.isoformat()}


def last_told(extras: Iterable[Mapping[str, Any]]) -> Told | None:
    """The newest event of a stream, among what stands in a table's events, newest first."""
    for extra in extras:
        # Anybody who may write assets can make an event by hand.
        with contextlib.suppress(ValidationError):
            told = Told.model_validate(extra)
            if told.mode == STREAM_MODE:
                return told
    return None


def event_of(
    pipeline: str, table: str, newest_first: Iterable[Commit], told: Told | None
) -> StreamEvent | None:
    """One event for all that was committed since the last one; None if no batch brought a row.

    Args:
        pipeline: The stream.
        table: Its table.
        newest_first: The commits of the table; read no further back than needed.
        told: The last event; None if there is none.
    """
    own = list(_of_batches(pipeline, newest_first, told))
    if not any(_changes_rows(commit) for commit, _ in own):
        return None
    newest, generation = own[0][0], own[0][1].generation
    live = [entry for _, entry in own if entry.generation == generation]
    rows = [commit.rows for commit, _ in own]
    return StreamEvent(
        pipeline=pipeline,
        table=table,
        version=newest.version,
        after_version=None if told is None else told.version,
        rows=None if None in rows else sum(count or 0 for count in rows),
        batches=len(own),
        sources=_read_of(live),
        generation=generation,
    )


def look(layout: Layout, pipeline: str, table: str, told: Told | None) -> StreamEvent | None:
    """The same of a table that is read now.

    Raises:
        DataError: TIDE-LEDG-001, if its log cannot be read.
    """
    path = layout.table(table)
    opened = open_table(path)
    if opened is not None and told is not None and opened.version() < told.version:
        # Another table of this name: what was told of the old one says nothing of it.
        told = None
    return event_of(pipeline, table, History(path, opened), told)


def _of_batches(
    pipeline: str, newest_first: Iterable[Commit], told: Told | None
) -> Iterator[tuple[Commit, LedgerEntry]]:
    for place, commit in enumerate(newest_first):
        if commit.version <= told.version if told is not None else place >= FIRST_COMMITS:
            return
        entry = commit.entry
        if entry is not None and entry.pipeline == pipeline and entry.mode in ("stream", "incremental"):
            yield commit, entry


def _changes_rows(commit: Commit) -> bool:
    """A batch that appended no row changed nothing; one that merged may have deleted some."""
    return commit.rows != 0 or commit.operation != "WRITE"


def _read_of(newest_first: list[LedgerEntry]) -> dict[str, Any]:
    oldest = newest_first[-1].sources
    return {
        name: {"start": oldest[name].start if name in oldest else None, "end": read.end}
        for name, read in newest_first[0].sources.items()
    }
