"""A stateful pipeline as it is on storage after some batches: checkpoint and table, made by hand."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.checkpoint_files import with_twin
from tests.support.commits import commit_of
from tests.support.declared import declared
from tests.support.delta_logs import LogCommit, write_log
from tests.support.large_checkpoint import LargeCheckpoint
from tidemill.ledger.code import code_of
from tidemill.ledger.entry import LedgerEntry, OffsetRange
from tidemill.ledger.shape import shape_of
from tidemill.names import transaction_id
from tidemill.spec.project import Pipeline

FIRST = 1000
TABLE = "bronze/orders"
TOPIC = "orders"
# Query id of LargeCheckpoint.
QUERY = str(uuid.UUID(int=1))
# Declaration with the settings that LargeCheckpoint pins.
DECLARATION: dict[str, Any] = {
    "source": {"kafka": {"topic": TOPIC}},
    "event_time": {"column": "at", "watermark": "10 minutes"},
    "run": {"shuffle_partitions": 10},
}


@dataclass(frozen=True)
class StoredStream:
    """The pipeline `orders`.

    Args:
        folder: Folder of the project.
        pipeline: The declared pipeline.
        last: Number of the newest batch.
        files: Number of files in the checkpoint.
    """

    folder: Path
    pipeline: Pipeline
    last: int
    files: int

    @property
    def checkpoint(self) -> Path:
        return Path(self.pipeline.layout.checkpoint("orders", "g0001"))

    def newest_state(self) -> Path:
        """Return the changelog of the newest version of one partition."""
        return next(self.checkpoint.glob(f"state/0/1/{self.last + 1}_*.changelog"))

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the checkpoint, with the checksum that Hadoop would give it."""
        for path, written in with_twin(name, content).items():
            (self.checkpoint / path).write_bytes(written)

    def remove(self, *names: str) -> None:
        """Remove files of the checkpoint, with their checksums."""
        for name in names:
            path = self.checkpoint / name
            path.unlink()
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    def write_table(self, last: int | None = None, restored_to: int | None = None, **other: Any) -> None:
        """Recreate the table with the batches up to `last` and with `other` values in their entries."""
        path = self.pipeline.layout.table(TABLE)
        shutil.rmtree(path, ignore_errors=True)
        app_id = transaction_id("orders", "g0001", TABLE)
        batches = range(FIRST, (self.last if last is None else last) + 1)
        commits = [
            LogCommit(entry=self._entry(number).model_copy(update=other), transaction=(app_id, number))
            for number in batches
        ]
        restore = [] if restored_to is None else [LogCommit("RESTORE", restored_to=restored_to)]
        write_log(path, [*commits, *restore])

    def _entry(self, batch_id: int) -> LedgerEntry:
        ends = {TOPIC: {str(partition): 500 * batch_id for partition in range(8)}}
        return commit_of(batch_id).entry.model_copy(
            update={
                "query_id": QUERY,
                "sources": {"source": OffsetRange(end=ends)},
                "shape": shape_of(self.pipeline.spec),
                "code": code_of(self.pipeline),
            }
        )


def store_stream(folder: Path, batches: int, partitions: int) -> StoredStream:
    """Write a stream that has run and was stopped."""
    pipeline = declared(folder, **DECLARATION)
    checkpoint = Path(pipeline.layout.checkpoint("orders", "g0001"))
    files = LargeCheckpoint(batches=batches, partitions=partitions, topic=TOPIC).write(checkpoint)
    stored = StoredStream(folder, pipeline, FIRST + batches - 1, files)
    stored.write_table()
    return stored
