"""A pipeline that reads files on any store, with the checkpoint and the table that its driver would leave."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from tests.support import checkpoint_files
from tests.support.commits import TABLE, commit_of
from tests.support.declared import declared
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.ledger.entry import OffsetRange
from tidemill.names import transaction_id
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

COLUMNS = pa.schema([("id", pa.int64())])


@dataclass(frozen=True)
class LandedFiles:
    """A pipeline that reads `landing/orders` into `bronze/orders`.

    Args:
        resolved: The pipeline.
        generation: Whose batches are written.
    """

    resolved: Pipeline
    generation: str = "g0001"

    @classmethod
    def on(cls, place: StorePlace, after: str = "archive") -> LandedFiles:
        """Return the pipeline `orders` on a store, without a project."""
        place.open()
        (place.folder / "conf/pipelines").mkdir(parents=True, exist_ok=True)
        files = {"path": "landing/orders", "format": "json", "schema": "id long", "after": after}
        return cls(declared(place.folder, environment=dict(place.keys), source={"files": files}))

    @property
    def after(self) -> str:
        """Return the declared action for files that were read."""
        return str(self.resolved.spec.source.chosen.after)

    @property
    def store(self) -> Store:
        return Store(self.resolved.layout.root)

    @property
    def checkpoint(self) -> str:
        return self.resolved.layout.checkpoint("orders", self.generation)

    def files(self, folder: str) -> list[str]:
        """Return files below a folder of the root, by their path below it."""
        whole = f"{self.store.root}/{folder}"
        return [file.path.removeprefix(f"{whole}/") for file in self.store.list_files(whole)]

    def land(self, *names: str) -> None:
        """Put files, each with its own name in it."""
        for name in names:
            self.store.write(f"{self.store.root}/landing/orders/{name}", name.encode())

    def read(self, *names: str, is_written: bool = True) -> int:
        """Commit a batch that has read these files, with its entry in the table, or without; its number."""
        store, batches = self.store, CheckpointBatches(self.store, self.checkpoint)
        read_or_create_current(store, self.resolved.layout, "orders")
        last = batches.last_committed()
        number = 0 if last is None else last + 1
        if batches.query_id() is None:
            store.write(f"{self.checkpoint}/metadata", checkpoint_files.metadata(str(uuid.uuid4())))
        store.write(f"{self.checkpoint}/sources/0/{number}", self._entry(number, names))
        end = {"logOffset": number}
        store.write(f"{self.checkpoint}/offsets/{number}", checkpoint_files.planned(end))
        if is_written:
            self._commit(number, None if number == 0 else {"logOffset": number - 1}, end)
        store.write(f"{self.checkpoint}/commits/{number}", checkpoint_files.committed())
        return number

    def _entry(self, number: int, names: Sequence[str]) -> bytes:
        folder = f"{self.store.root}/landing/orders"
        there = {file.path: file for file in self.store.list_files(folder)}
        lines = [
            json.dumps(
                {
                    "path": self._uri(f"{folder}/{name}"),
                    "timestamp": int(there[f"{folder}/{name}"].modified.timestamp() * 1000),
                    "batchId": number,
                }
            )
            for name in names
        ]
        return "\n".join(["v1", *lines]).encode()

    def _uri(self, path: str) -> str:
        return path if "://" in path else f"file://{quote(path)}"

    def _commit(self, number: int, start: Any, end: Any) -> None:
        log = TableLog(self.resolved.layout.table(TABLE))
        log.create(COLUMNS)
        query_id = CheckpointBatches(self.store, self.checkpoint).query_id()
        update = {
            "generation": self.generation,
            "query_id": query_id,
            "sources": {"source": OffsetRange(start=start, end=end)},
        }
        entry = commit_of(number).entry.model_copy(update=update)
        commit = BatchCommit(transaction_id("orders", self.generation, TABLE), number, entry)
        assert log.commit([], commit, COLUMNS).committed
