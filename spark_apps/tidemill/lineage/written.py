"""The ledger as lineage needs it: the writes of each batch, by table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit, History, open_table, read_commits, unreadable_log
from tidemill.lineage.datasets import tables_of
from tidemill.names import ASIDE_OUTPUTS
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to

# Maximum newest commits of a table, by any writer, to search for a running driver's newest batch. Few commits
# were made since then, and each is a request to the storage.
LOOKED_AT = 20

# Maximum time between the first and the last commit of one batch or backfill, so that its events do not
# depend on where a time range begins.
BATCH_COMMITS_WITHIN = timedelta(hours=1)


@dataclass(frozen=True)
class TableWrite:
    """Writes of one batch to one table.

    Args:
        table: Its name: `silver/orders`, `quarantine/<pipeline>`.
        version: The version after its last commit.
        rows: Rows written; None if its commits do not record them.
        columns: Fields of the table in that version, as Delta writes them; None if that version is no longer
            readable.
    """

    table: str
    version: int
    rows: int | None
    columns: tuple[dict[str, Any], ...] | None = None


@dataclass(frozen=True)
class BatchWrites:
    """Writes of one batch of a run, or of one backfill.

    Args:
        entry: Entry of one of its commits; of a sink's table if it wrote to one.
        committed_at: Time of its last commit.
        tables: Tables in the order of the declaration.
    """

    entry: LedgerEntry
    committed_at: datetime
    tables: tuple[TableWrite, ...]


@dataclass(frozen=True)
class _Found:
    """A commit with its entry and its location."""

    output: str
    table: str
    commit: Commit
    entry: LedgerEntry

    @property
    def batch(self) -> tuple[str, str | None, int | None]:
        """Return the key of its batch; a batch that two drivers wrote in part is two batches, of two runs."""
        return self.entry.run_id, self.entry.generation, self.entry.batch_id


def batches_since(pipeline: Pipeline, since: datetime) -> list[BatchWrites]:
    """Return all batches whose last commit is at or after a time, oldest first.

    Raises:
        DataError: TIDE-LEDG-001, if files of a table's log are missing or damaged.
    """
    found: list[_Found] = []
    for output in tables_of(pipeline):
        for one in _commits(pipeline, output):
            if one.commit.committed_at < since - BATCH_COMMITS_WITHIN:
                break
            found.append(one)
    batches = [_batch(pipeline, commits) for commits in _grouped(found)]
    return sorted((b for b in batches if b.committed_at >= since), key=lambda batch: batch.committed_at)


def newest_batch(pipeline: Pipeline, run_id: str, up_to: int | None) -> BatchWrites | None:
    """Return the newest complete batch of a run; None if its commits are not among the newest.

    Args:
        pipeline: The pipeline.
        run_id: Id of the run.
        up_to: Newest batch with all its commits; None for a backfill.

    Raises:
        DataError: TIDE-LEDG-001, if files of a table's log are missing or damaged.
    """
    found = [
        one
        for output in tables_of(pipeline)
        for one in _commits(pipeline, output, LOOKED_AT)
        if one.entry.run_id == run_id and _is_whole(one.entry.batch_id, up_to)
    ]
    if not found:
        return None
    newest = max(found, key=lambda one: -1 if one.entry.batch_id is None else one.entry.batch_id).batch
    return _batch(pipeline, [one for one in found if one.batch == newest])


def _is_whole(batch_id: int | None, up_to: int | None) -> bool:
    return batch_id == up_to if batch_id is None or up_to is None else batch_id <= up_to


def _commits(pipeline: Pipeline, output: str, limit: int | None = None) -> Iterator[_Found]:
    """Yield the pipeline's commits to one table, newest first, without those that begin a generation."""
    path, table = _path(pipeline, output), tables_of(pipeline)[output]
    for commit in read_commits(path, limit) if limit is not None else _history(path):
        entry = commit.entry
        if entry is None or entry.mode == "base":
            continue
        if (entry.pipeline, entry.output) == (pipeline.name, output):
            yield _Found(output, table, commit, entry)


def _history(path: str) -> History:
    """Return all commits of a table, read only as far back as needed."""
    from deltalake.exceptions import DeltaError

    try:
        return History(path, open_table(path))
    except DeltaError as error:
        raise unreadable_log(path, error) from error


def _path(pipeline: Pipeline, output: str) -> str:
    layout = pipeline.layout
    return layout.aside(output, pipeline.name) if output in ASIDE_OUTPUTS else layout.table(output)


def _grouped(found: Iterable[_Found]) -> Iterator[list[_Found]]:
    groups: dict[object, list[_Found]] = {}
    for one in found:
        groups.setdefault(one.batch, []).append(one)
    yield from groups.values()


def _batch(pipeline: Pipeline, found: list[_Found]) -> BatchWrites:
    by_output: dict[str, list[_Found]] = {}
    for one in found:
        by_output.setdefault(one.output, []).append(one)
    tables = tuple(_write(pipeline, commits) for commits in by_output.values())
    return BatchWrites(found[0].entry, max(one.commit.committed_at for one in found), tables)


def _write(pipeline: Pipeline, commits: list[_Found]) -> TableWrite:
    version = max(one.commit.version for one in commits)
    rows = [one.commit.rows for one in commits]
    counted = None if None in rows else sum(row or 0 for row in rows)
    columns = _columns(_path(pipeline, commits[0].output), version)
    return TableWrite(commits[0].table, version, counted, columns)


def _columns(path: str, version: int) -> tuple[dict[str, Any], ...] | None:
    """Return the columns of a version; None if the log does not reach back to it."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(path, version, storage_options=access_to(path).delta_options())
    except DeltaError:
        return None
    return tuple(json.loads(table.schema().to_json())["fields"])
