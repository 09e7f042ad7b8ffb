"""Small files of the tables that a pipeline writes, by what maintenance would put together."""

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

# Small files that are worth a word: more than the daily maintenance leaves of a stream with a trigger of 10
# seconds, which makes 8,640 a day where a batch is one file.
MANY_SMALL_FILES = 10_000


@dataclass(frozen=True)
class MeasuredTable:
    """A table of many files.

    Args:
        name: `bronze/orders`.
        files: Its data files.
        small: Of these, the small ones that could be put together.
        small_bytes: Bytes in those.
        left: Why maintenance leaves them; empty if it does not.
    """

    name: str
    files: int
    small: int
    small_bytes: int
    left: str = ""


def read_tables(store: Store, pipeline: Pipeline) -> Iterator[MeasuredTable]:
    """The tables with many files of those that a pipeline writes; writes nothing.

    Only those are opened that had many at the newest checkpoint of their log, so that a look at a thousand
    pipelines stays quick.
    """
    from deltalake.exceptions import DeltaError

    for sink in pipeline.spec.delta_sinks:
        path = pipeline.layout.table(sink.table)
        try:
            delta = open_table(path) if _had_many(store, path) else None
            if delta is not None:
                yield _measured(sink.table, delta)
        except (DeltaError, TidemillError, OSError):
            # The gate's to say.
            continue


def _had_many(store: Store, path: str) -> bool:
    """Whether the newest checkpoint has many files, or does not tell; one comes with every 100 commits."""
    newest = store.read_json(f"{path}/_delta_log/_last_checkpoint")
    return newest is not None and newest.get("numOfAddFiles", MANY_SMALL_FILES) >= MANY_SMALL_FILES


def _measured(name: str, delta: DeltaTable) -> MeasuredTable:
    files = list(data_files(delta))
    small = worth_merging(files)
    left = why_left(small, unsupported(delta, files))
    return MeasuredTable(name, len(files), len(small), sum(file.size for file in small), left)
