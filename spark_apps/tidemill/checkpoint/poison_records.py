"""Records of a topic at which the transform failed: one file each, made by put-if-absent, none ever changed.

A file stands before anything acts on it, and belongs to the code that failed: each batch of that code, also
one that is repeated after a crash, leaves the same records out. Other code tries them anew.
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
    """One record, and how the transform failed at it.

    Args:
        topic: Its topic.
        partition: Partition there.
        offset: Offset there.
        topic_id: Id of the topic: another one of the same name has other records. Empty where the broker
            tells none.
        generation: Checkpoint whose batch it was in.
        error: Class of the error, or Spark's name for it.
        message: What the error says, in one line; it may quote the record.
        batch_id: Whose record it was.
        run_id: Of the driver that found it.
        at: When.
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
        """Names the record, e.g. `orders-0-17`."""
        return f"{self.topic}-{self.partition}-{self.offset}"

    def is_in(self, read: OffsetRange) -> bool:
        """Whether a range of its topic's offsets holds it."""
        start, end = (
            (offsets or {}).get(self.topic, {}).get(str(self.partition), 0)
            for offsets in (read.start, read.end)
        )
        return bool(start <= self.offset < end)


def poison_folder(layout: Layout, pipeline: str, code: Code) -> str:
    """Where the records of one code are: what decides over a record, of one version of Tidemill."""
    return layout.poison(pipeline, f"{code.tidemill}-{code.rules}")


def poison_records(
    store: Store, folder: str, generation: str, topic_ids: Mapping[str, str]
) -> list[PoisonRecord]:
    """Those that are still what they were: of the same topics, or of the same checkpoint.

    Args:
        store: Control files.
        folder: Of the code that runs.
        generation: The live checkpoint.
        topic_ids: Ids of the topics that the broker tells.

    Raises:
        DataError: TIDE-STOR-001, if a file is damaged.
    """
    found = [_read(store, f"{folder}/{name}") for name in store.list_names(folder)]
    return [
        record
        for record in found
        if (record.topic_id == topic_ids.get(record.topic))
        # No id was known then, or is now.
        or (record.generation == generation and (not record.topic_id or record.topic not in topic_ids))
    ]


def add_poison_record(store: Store, folder: str, record: PoisonRecord) -> bool:
    """Keep a record; False if it is there."""
    # Ids of topics are base64, which has slashes.
    whose = hashlib.sha256((record.topic_id or record.generation).encode()).hexdigest()[:16]
    name = f"{record.place}-{whose}"
    return store.create_json(f"{folder}/{name}.json", record.model_dump(mode="json"))


def poison_in(records: Iterable[PoisonRecord], entry: LedgerEntry) -> tuple[str, ...] | None:
    """Places of those that the batch of an entry leaves out; None if there are none."""
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
