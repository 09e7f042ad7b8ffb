"""Where a pipeline stands in each of its tables: newest batch, version, offsets. Read from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit, read_commits
from tidemill.ledger.standing import standing_commits
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.spec.project import Pipeline

# Commits read first. A live stream's newest batch is among the newest few; only after long maintenance, or
# where a RESTORE stands among them, the whole log is read.
LOOK_BACK = 50


@dataclass(frozen=True)
class TablePoint:
    """Where one table stands.

    Args:
        table: Name, or `quarantine`.
        version: Newest version; None if there is no table.
        batch_id: Newest standing batch of the pipeline's live side; None if it has none.
        generation: Which wrote that batch.
        ends: End offset document of each source, by the ledger.
    """

    table: str
    version: int | None
    batch_id: int | None = None
    generation: str | None = None
    ends: Mapping[str, Any] = field(default_factory=dict)


def table_paths(pipeline: Pipeline) -> dict[str, str]:
    """Path of each Delta table that the pipeline writes; `quarantine` is the one of rejected records."""
    paths = {sink.table: pipeline.layout.table(sink.table) for sink in pipeline.spec.delta_sinks}
    if pipeline.spec.payload is not None:
        paths[QUARANTINE_OUTPUT] = pipeline.layout.quarantine(pipeline.name)
    return paths


def table_points(pipeline: Pipeline) -> list[TablePoint]:
    """Where each table of the pipeline stands now."""
    return [_newest(pipeline.name, table, path) for table, path in table_paths(pipeline).items()]


def newest_entries(pipeline: Pipeline, generation: str) -> list[LedgerEntry]:
    """Ledger entries of a generation among the newest commits of each table, newest first."""
    found = []
    for path in table_paths(pipeline).values():
        entries = (commit.entry for commit in standing_commits(_recent_commits(path)))
        found += [e for e in entries if e and e.pipeline == pipeline.name and e.generation == generation]
    return found


def _recent_commits(path: str) -> list[Commit]:
    commits = read_commits(path, LOOK_BACK)
    return read_commits(path) if any(commit.operation == "RESTORE" for commit in commits) else commits


def version_at(path: str, pipeline: str, generation: str, batch_id: int) -> int | None:
    """Newest version of a table without anything of the batches after `batch_id`; None if there was none.

    Raises:
        LookupError: If the log no longer tells.
    """
    limit: int | None = LOOK_BACK
    while True:
        commits = read_commits(path, limit)
        later = [c.version for c in commits if _is_later(c.entry, pipeline, generation, batch_id)]
        if not commits:
            return None
        oldest = commits[-1].version
        if not later:
            return commits[0].version
        if min(later) > oldest or oldest == 0:
            return min(later) - 1 if min(later) > 0 else None
        if limit is None:
            raise LookupError(path)
        limit = None


def _newest(pipeline: str, table: str, path: str) -> TablePoint:
    for limit in (LOOK_BACK, None):
        commits = read_commits(path, limit)
        if not commits:
            return TablePoint(table, None)
        if limit is not None and any(commit.operation == "RESTORE" for commit in commits):
            continue
        entry = _newest_entry(commits, pipeline)
        if entry is not None:
            ends = {name: read.end for name, read in entry.sources.items()}
            return TablePoint(table, commits[0].version, entry.batch_id, entry.generation, ends)
    return TablePoint(table, commits[0].version)


def _newest_entry(newest_first: list[Commit], pipeline: str) -> LedgerEntry | None:
    entries = (commit.entry for commit in standing_commits(newest_first))
    return next((e for e in entries if e and e.pipeline == pipeline and e.mode != "backfill"), None)


def _is_later(entry: LedgerEntry | None, pipeline: str, generation: str, batch_id: int) -> bool:
    if entry is None or entry.pipeline != pipeline or entry.generation != generation:
        return False
    return entry.batch_id is not None and entry.batch_id > batch_id
