"""The watermark of each of several streams after each batch, kept in the checkpoint.

Spark's own files have one watermark of all streams (`nextBatchWatermarkMs`). A query that starts again knows
no stream's watermark until it reads rows of that stream. With Spark's policy `min`, the one watermark cannot
move before one run has read rows of every stream, so scheduled runs would never close a window.

    watermarks/N    after batch N: {"plant_a": 1772330160000, "plant_b": null}, in milliseconds since 1970

A file is written before `commits/N`. Where a file is missing, the newest one before it is a lower bound,
because no watermark goes back: windows close later, and no row is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from tidemill.storage.store import Store

# Folder of the files in the checkpoint, next to Spark's own folders.
WATERMARKS = "watermarks"

# Watermarks by stream, in milliseconds since 1970. None before the first row with an event time.
Watermarks = Mapping[str, int | None]

# Maximum timestamp of a datetime. A later watermark comes from a broken event.
_LATEST_MILLISECONDS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)


def read_watermarks(store: Store, checkpoint: str, before: int | None = None) -> Watermarks:
    """Return the watermarks after the newest batch; empty if none were stored.

    Args:
        store: The storage.
        checkpoint: The checkpoint directory.
        before: Unfinished batch; only batches before it count.

    Raises:
        DataError: TIDE-STOR-001, if the file is damaged.
    """
    kept = [number for number in _kept(store, checkpoint) if before is None or number < before]
    return (store.read_json(_path(checkpoint, max(kept))) or {}) if kept else {}


def write_watermarks(store: Store, checkpoint: str, batch_id: int, watermarks: Watermarks) -> None:
    """Store the watermarks after a batch."""
    store.write_json(_path(checkpoint, batch_id), watermarks)


def delete_watermarks(store: Store, checkpoint: str, before: int) -> None:
    """Delete the watermarks of batches that Spark has purged."""
    for number in _kept(store, checkpoint):
        if number < before:
            store.delete(_path(checkpoint, number))


def moments_of(watermarks: Watermarks) -> dict[str, datetime | None]:
    """Return the watermarks as times; None before the first row with an event time."""
    return {name: None if reached is None else _moment(reached) for name, reached in watermarks.items()}


def _moment(milliseconds: int) -> datetime | None:
    # Spark reports a watermark of 1970 or earlier if there is none.
    if milliseconds <= 0:
        return None
    return datetime.fromtimestamp(min(milliseconds, _LATEST_MILLISECONDS) / 1000, tz=UTC)


def _kept(store: Store, checkpoint: str) -> list[int]:
    names = store.list_names(f"{checkpoint}/{WATERMARKS}")
    return [int(name) for name in names if name.isdecimal()]


def _path(checkpoint: str, batch_id: int) -> str:
    return f"{checkpoint}/{WATERMARKS}/{batch_id}"
