"""Count the small files of a pipeline's tables that maintenance would merge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError
from tidemill.ledger.read import open_table
from tidemill.ledger.small_files import data_files, unsupported, why_left, worth_merging
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Minimum number of small files for a finding: more than the daily maintenance leaves of a stream with a
# trigger of 10 seconds, which writes 8,640 files a day if a batch is one file.
MANY_SMALL_FILES = 10_000


@dataclass(frozen=True)
class MeasuredTable:
    """A table with many files.

    Args:
        name: Name such as `bronze/orders`.
        files: Number of its data files.
        small: Number of small files that could be merged.
        small_bytes: Total size of the small files.
        left: Reason why maintenance leaves them; empty if it merges them.
    """

    name: str
    files: int
    small: int
    small_bytes: int
    left: str = ""


def read_tables(store: Store, pipeline: Pipeline) -> Iterator[MeasuredTable]:
    """Yield the tables of a pipeline that have many files; write nothing.

    Only tables that had many files at the newest checkpoint of their log are opened, so that a thousand
    pipelines are checked quickly.
    """
    from deltalake.exceptions import DeltaError

    for sink in pipeline.spec.delta_sinks:
        path = pipeline.layout.table(sink.table)
        try:
            delta = open_table(path) if _had_many(store, path) else None
            if delta is not None:
                yield _measured(sink.table, delta)
        except (DeltaError, TidemillError, OSError):
            # The gate reports unreadable tables.
            continue


def _had_many(store: Store, path: str) -> bool:
    """Return True if the newest log checkpoint (one per 100 commits) has many files or no count."""
    newest = store.read_json(f"{path}/_delta_log/_last_checkpoint")
    return newest is not None and newest.get("numOfAddFiles", MANY_SMALL_FILES) >= MANY_SMALL_FILES


def _measured(name: str, delta: DeltaTable) -> MeasuredTable:
    files = list(data_files(delta))
    small = worth_merging(files)
    left = why_left(small, unsupported(delta, files))
    return MeasuredTable(name, len(files), len(small), sum(file.size for file in small), left)
