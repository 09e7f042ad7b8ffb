"""Asset events of a stream: one event for all commits to a table since its last event."""

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

# Distinguishes events of streams from events of incremental runs and backfills about the same table.
STREAM_MODE = "stream"

# Maximum commits to search without an earlier event; with one, all commits since then are searched.
FIRST_COMMITS = 1000


class Told(BaseModel):
    """The content of an earlier event.

    Args:
        mode: Mode of the pipeline that emitted it.
        version: Version of the table.
        told_at: Time of the run that emitted it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    mode: str
    version: int
    told_at: AwareDatetime

    def is_due(self, every: timedelta, now: datetime) -> bool:
        """Return True if the next event may be emitted. Both times are schedule times, so none is lost."""
        return now - self.told_at >= every


@dataclass(frozen=True)
class StreamEvent:
    """A new event.

    Args:
        pipeline: The stream.
        table: The table.
        version: Its newest version that a batch created.
        after_version: Version in the previous event; None without one.
        rows: Rows written; None if a commit does not record them.
        batches: Number of commits.
        sources: First start and last end of each source's range, in the newest generation.
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
        """Return the event as plain data, which `Told` can read back."""
        return {"mode": STREAM_MODE, **asdict(self), "told_at": told_at.isoformat()}


def last_told(extras: Iterable[Mapping[str, Any]]) -> Told | None:
    """Return the newest event of a stream among a table's events, newest first."""
    for extra in extras:
        # Any user with write access to assets can create an event by hand.
        with contextlib.suppress(ValidationError):
            told = Told.model_validate(extra)
            if told.mode == STREAM_MODE:
                return told
    return None


def event_of(
    pipeline: str, table: str, newest_first: Iterable[Commit], told: Told | None
) -> StreamEvent | None:
    """Return one event for all commits since the last one; None if no batch wrote a row.

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
    """Return the event of a table, which is read now.

    Raises:
        DataError: TIDE-LEDG-001, if its log cannot be read.
    """
    path = layout.table(table)
    opened = open_table(path)
    if opened is not None and told is not None and opened.version() < told.version:
        # The table was recreated, so the event of the old table does not apply.
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
    """Return True if the commit may have changed rows; a merge without new rows may have deleted some."""
    return commit.rows != 0 or commit.operation != "WRITE"


def _read_of(newest_first: list[LedgerEntry]) -> dict[str, Any]:
    oldest = newest_first[-1].sources
    return {
        name: {"start": oldest[name].start if name in oldest else None, "end": read.end}
        for name, read in newest_first[0].sources.items()
    }
