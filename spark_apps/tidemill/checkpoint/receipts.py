"""Receipts: each stopping driver records how it ended, for the next start."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tidemill.names import Layout
from tidemill.storage.store import Store


class Receipt(BaseModel):
    """The record that a stopping driver writes.

    `clean`: the running batch was finished and committed. `forced`: the drain deadline passed. `failed`: the
    driver ended with `error`. A killed driver writes no receipt.

    Args:
        started_at: Time when the driver started; None in receipts of earlier versions.
        batch_id: Newest batch that the checkpoint has committed.
        unfinished_batch: Batch that was planned and not committed; the next start runs it. A clean driver has
            not begun to write it.
        offsets: End offsets of each source after `batch_id`, exclusive.
        stopped_early: True if an incremental run or a backfill was asked to stop before it had finished. Then
            `clean` only says that no batch was interrupted.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    pipeline: str
    run_id: str
    mode: str
    result: Literal["clean", "forced", "failed"]
    exit_code: int
    started_at: datetime | None = None
    stopped_at: datetime
    generation: str | None = None
    epoch: int | None = None
    batch_id: int | None = None
    unfinished_batch: int | None = None
    offsets: dict[str, Any] | None = None
    watermark: datetime | None = None
    error: dict[str, Any] | None = None
    stopped_early: bool = False


def write_receipt(store: Store, layout: Layout, receipt: Receipt) -> None:
    """Write a receipt; names sort by time."""
    name = _file_name(receipt.stopped_at)
    store.write_json(f"{layout.receipts(receipt.pipeline)}/{name}", receipt.model_dump(mode="json"))


def receipts_since(store: Store, layout: Layout, pipeline: str, since: datetime) -> list[Receipt]:
    """Return the receipts of drivers that ended at or after `since`, oldest first."""
    folder = layout.receipts(pipeline)
    names = [name for name in store.list_names(folder) if name >= _file_name(since)]
    documents = (store.read_json(f"{folder}/{name}") for name in names)
    return [Receipt.model_validate(document) for document in documents if document is not None]


def newest_receipt(store: Store, layout: Layout, pipeline: str) -> Receipt | None:
    """Return the newest receipt; None if there is none."""
    folder = layout.receipts(pipeline)
    names = store.list_names(folder)
    document = store.read_json(f"{folder}/{names[-1]}") if names else None
    return None if document is None else Receipt.model_validate(document)


def _file_name(stopped_at: datetime) -> str:
    return f"{stopped_at:%Y%m%dT%H%M%S.%fZ}.json"
