"""Progress of a backfill, stored next to its plan by the driver that carries it out, chunk by chunk.

A chunk is done once its rows are in every table, and nowhere else. If a driver dies before it has recorded
this, the chunk is processed again, which changes no row.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.backfill.plan import BackfillPlan
from tidemill.errors import DataError
from tidemill.ledger.entry import FilesRead, Joined, Positions
from tidemill.names import Layout
from tidemill.storage.store import Store


class ChunkDone(BaseModel):
    """A finished chunk.

    Args:
        rows: Rows written, by table.
        versions: Versions of the tables with its commits; None if it changed no row.
        poison: Number of records skipped because the transform fails on them.
        records: Records read; None if the source does not report it.
        seconds: Duration.
        run_id: Id of the run.
        at: Time at which it was finished.
    """

    model_config = ConfigDict(frozen=True)

    rows: dict[str, int]
    versions: dict[str, int | None]
    poison: int = 0
    records: int | None
    seconds: float
    run_id: str
    at: datetime


class Found(BaseModel):
    """Offsets of the records, found once, so that every driver splits them at the same places.

    Args:
        start: First offsets.
        end: End offsets.
        seconds: Duration of the search, which reads the records that are chosen by time.
    """

    model_config = ConfigDict(frozen=True)

    start: Positions
    end: Positions
    seconds: float


class Progress(BaseModel):
    """One attempt at a plan, by consecutive drivers.

    Args:
        begun_at: Time at which the first driver began.
        rules: Digest of everything that determines the result of a record, including models.
        tables_read: Version of each joined table; the same for all chunks.
        files_read: Files of each joined folder; the same for all chunks.
        found: Offsets of the records, if chunks are split by records.
        chunks: Number of chunks; None before it is known.
        done: Finished chunks by number, from 0.
        staged_at: Time at which all rows were staged, if they are published later.
        since: Version of each table before its rows were published; None for a new table.
        published: Version of each table with the published rows; None if they changed no row.
        finished_at: Time at which all chunks were done.
        finished_by: Id of the run that finished.
    """

    model_config = ConfigDict(frozen=True)

    v: int = 1
    begun_at: datetime
    rules: str | None = None
    tables_read: dict[str, int] | None = None
    files_read: dict[str, FilesRead] | None = None
    found: Found | None = None
    chunks: int | None = None
    done: dict[int, ChunkDone] = {}
    staged_at: datetime | None = None
    since: dict[str, int | None] | None = None
    published: dict[str, int | None] | None = None
    finished_at: datetime | None = None
    finished_by: str | None = None

    @property
    def joined(self) -> Joined:
        """Contents of the tables and folders that the rows are joined with."""
        return Joined(tables=self.tables_read or {}, files=self.files_read or {})

    @property
    def rows(self) -> dict[str, int]:
        """Return the rows written so far, by table."""
        rows: dict[str, int] = {}
        for chunk in self.done.values():
            for table, count in chunk.rows.items():
                rows[table] = rows.get(table, 0) + count
        return rows

    @property
    def poison(self) -> int:
        """Return the number of records skipped so far because the transform fails on them."""
        return sum(chunk.poison for chunk in self.done.values())

    @property
    def left(self) -> timedelta | None:
        """Return the estimated time for the remaining chunks; None if unknown."""
        if self.chunks is None or not self.done:
            return None
        each = sum(chunk.seconds for chunk in self.done.values()) / len(self.done)
        return timedelta(seconds=round(each * (self.chunks - len(self.done))))

    @property
    def records_per_second(self) -> float | None:
        """Return the speed of processing records; None if the source does not report them."""
        known = [(chunk.records, chunk.seconds) for chunk in self.done.values() if chunk.records]
        seconds = sum(seconds for _, seconds in known) + (self.found.seconds if self.found else 0)
        return sum(records for records, _ in known) / seconds if seconds else None


class ProgressFile:
    """The progress file of one plan, written by the one driver that carries the plan out.

    If another run has finished the backfill, it is done again completely, because a new request wants the
    rows rewritten. The same applies if the file cannot be read.
    """

    def __init__(self, store: Store, layout: Layout, plan: BackfillPlan, run_id: str) -> None:
        self._store = store
        self._path = layout.backfill_progress(plan.pipeline, plan.digest)
        before = read_progress(store, layout, plan.pipeline, plan.digest)
        goes_on = before is not None and before.finished_by in (None, run_id)
        self.now = before if before is not None and goes_on else Progress(begun_at=datetime.now(UTC))

    def change(self, **changes: object) -> None:
        """Store changed fields."""
        self.now = self.now.model_copy(update=changes)
        self._store.write_json(self._path, self.now.model_dump(mode="json"))

    def begin_anew(self) -> None:
        """Reset the progress."""
        self.now = Progress(begun_at=datetime.now(UTC))


def read_progress(store: Store, layout: Layout, pipeline: str, digest: str) -> Progress | None:
    """Return the progress of a plan; None if it was not started, or if the file is damaged."""
    try:
        document = store.read_json(layout.backfill_progress(pipeline, digest))
        return None if document is None else Progress.model_validate(document)
    except (DataError, ValidationError):
        return None


def forget_progress(store: Store, layout: Layout, pipeline: str, digest: str) -> None:
    """Delete the progress, so that the next driver processes all chunks again."""
    store.delete(layout.backfill_progress(pipeline, digest))
