"""How far a backfill has come: kept beside its plan by the driver that carries it out, chunk by chunk.

A chunk is done once its rows are in every table and its records in no other place. A driver that dies before
it has said so does the chunk again, which changes no row.
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
    """A chunk that is done.

    Args:
        rows: Rows written, by table.
        versions: Versions of the tables with its commits; None where it changed no row.
        poison: Records that it left out because the transform fails at them.
        records: Records read; None if the source does not tell.
        seconds: How long it took.
        run_id: Which run did it.
        at: When it was done.
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
    """Offsets of the records, found once, so that a driver that goes on cuts them at the same places.

    Args:
        start: First offsets.
        end: End offsets.
        seconds: How long that took: records that are chosen by time are read for it.
    """

    model_config = ConfigDict(frozen=True)

    start: Positions
    end: Positions
    seconds: float


class Progress(BaseModel):
    """One attempt at a plan, by one driver after the other.

    Args:
        begun_at: When the first of them began.
        rules: Digest of all that decides what becomes of a record, models included.
        tables_read: Version of each table that the rows are joined with: one for all chunks.
        files_read: Files of each folder that they are joined with, likewise.
        found: Offsets of the records, where chunks are cut by records.
        chunks: How many there are; None before that is known.
        done: Those that are done, by number, from 0.
        staged_at: When all rows were staged, if they are published later.
        since: Version of each table before its rows were published; None for a table that was new.
        published: Version of each table with them; None where they changed no row.
        finished_at: When all were done.
        finished_by: By which run.
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
        """Rows written so far, by table."""
        rows: dict[str, int] = {}
        for chunk in self.done.values():
            for table, count in chunk.rows.items():
                rows[table] = rows.get(table, 0) + count
        return rows

    @property
    def poison(self) -> int:
        """Records left out so far because the transform fails at them."""
        return sum(chunk.poison for chunk in self.done.values())

    @property
    def left(self) -> timedelta | None:
        """How long the chunks that are left take if each takes as long as those before; None if unknown."""
        if self.chunks is None or not self.done:
            return None
        each = sum(chunk.seconds for chunk in self.done.values()) / len(self.done)
        return timedelta(seconds=round(each * (self.chunks - len(self.done))))

    @property
    def records_per_second(self) -> float | None:
        """How fast records were processed; None if the source does not tell."""
        known = [(chunk.records, chunk.seconds) for chunk in self.done.values() if chunk.records]
        seconds = sum(seconds for _, seconds in known) + (self.found.seconds if self.found else 0)
        return sum(records for records, _ in known) / seconds if seconds else None


class ProgressFile:
    """The file of one plan. Its writer is the one driver that carries the plan out.

    A backfill that another run has finished is done again as a whole: who asks for it wants its rows back. So
    is one whose file cannot be read.
    """

    def __init__(self, store: Store, layout: Layout, plan: BackfillPlan, run_id: str) -> None:
        self._store = store
        self._path = layout.backfill_progress(plan.pipeline, plan.digest)
        before = read_progress(store, layout, plan.pipeline, plan.digest)
        goes_on = before is not None and before.finished_by in (None, run_id)
        self.now = before if before is not None and goes_on else Progress(begun_at=datetime.now(UTC))

    def change(self, **changes: object) -> None:
        """Keep what is new."""
        self.now = self.now.model_copy(update=changes)
        self._store.write_json(self._path, self.now.model_dump(mode="json"))

    def begin_anew(self) -> None:
        """Forget what was done."""
        self.now = Progress(begun_at=datetime.now(UTC))


def read_progress(store: Store, layout: Layout, pipeline: str, digest: str) -> Progress | None:
    """How far a plan was carried out; None if nobody has begun, or the file is damaged."""
    try:
        document = store.read_json(layout.backfill_progress(pipeline, digest))
        return None if document is None else Progress.model_validate(document)
    except (DataError, ValidationError):
        return None


def forget_progress(store: Store, layout: Layout, pipeline: str, digest: str) -> None:
    """Let the next driver do all chunks again."""
    store.delete(layout.backfill_progress(pipeline, digest))
