"""Records of a topic for which the transform failed: one immutable file each, created with put-if-absent.

A file is written before anything acts on the record, and it belongs to the code that failed. Each batch of
that code leaves the same records out, even when it is repeated after a crash. Other code tries the records
again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.errors import DataError
from tidemill.ledger.entry import Code, LedgerEntry, OffsetRange
from tidemill.names import SOURCE_NAME, Layout
from tidemill.storage.store import Store


class PoisonRecord(BaseModel):
    """One record and the failure of the transform.

    Args:
        topic: Topic of the record.
        partition: Partition of the topic.
        offset: Offset in the partition.
        topic_id: Id of the topic, because a recreated topic of the same name has other records. Empty if the
            broker does not report ids.
        generation: Checkpoint generation of its batch.
        error: Class of the error, or Spark's name for it.
        message: Error message in one line; it may quote the record.
        batch_id: Batch of the record.
        run_id: Run of the driver that found it.
        at: Time of the failure.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    topic: str
    partition: int
    offset: int
    topic_id: str = ""
    generation: str
    error: str
    message: str
    batch_id: int
    run_id: str
    at: datetime

    @property
    def place(self) -> str:
        """Return the name of the record, such as `orders-0-17`."""
        return f"{self.topic}-{self.partition}-{self.offset}"

    def is_in(self, read: OffsetRange) -> bool:
        """Return True if a range of its topic's offsets includes the record."""
        start, end = (
            (offsets or {}).get(self.topic, {}).get(str(self.partition), 0)
            for offsets in (read.start, read.end)
        )
        return bool(start <= self.offset < end)


def poison_folder(layout: Layout, pipeline: str, code: Code) -> str:
    """Return the folder of the records that failed with this code and this version of Tidemill."""
    return layout.poison(pipeline, f"{code.tidemill}-{code.rules}")


def poison_records(
    store: Store, folder: str, generation: str, topic_ids: Mapping[str, str]
) -> list[PoisonRecord]:
    """Return the records that are still valid: of the same topic id, or else of the same checkpoint.

    Args:
        store: Control files.
        folder: Folder of the running code.
        generation: The live checkpoint.
        topic_ids: Ids of the topics that the broker reports.

    Raises:
        DataError: TIDE-STOR-001, if a file is damaged.
    """
    found = [_read(store, f"{folder}/{name}") for name in store.list_names(folder)]
    return [
        record
        for record in found
        if (record.topic_id == topic_ids.get(record.topic))
        # The id is unknown, either then or now.
        or (record.generation == generation and (not record.topic_id or record.topic not in topic_ids))
    ]


def add_poison_record(store: Store, folder: str, record: PoisonRecord) -> bool:
    """Store a record; return False if it is already stored."""
    # Topic ids are base64, which can contain slashes.
    whose = hashlib.sha256((record.topic_id or record.generation).encode()).hexdigest()[:16]
    name = f"{record.place}-{whose}"
    return store.create_json(f"{folder}/{name}.json", record.model_dump(mode="json"))


def poison_in(records: Iterable[PoisonRecord], entry: LedgerEntry) -> tuple[str, ...] | None:
    """Return the names of the records that the entry's batch leaves out; None if there are none."""
    read = entry.sources.get(SOURCE_NAME)
    places = () if read is None else (record.place for record in records if record.is_in(read))
    return tuple(sorted(places)) or None


def _read(store: Store, path: str) -> PoisonRecord:
    content = store.read(path) or b""
    try:
        return PoisonRecord.model_validate(json.loads(content))
    except (ValueError, ValidationError) as error:
        raise DataError(
            "TIDE-STOR-001",
            "A control file is damaged.",
            facts={"file": path, "bytes": len(content)},
            fix="move it away: the record is found again when the transform fails at it",
        ) from error
