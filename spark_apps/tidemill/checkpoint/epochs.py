"""Epochs: each driver claims the next number at its start; put-if-absent gives it to only one driver."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemill.names import Layout
from tidemill.storage.store import Store


def claim_epoch(store: Store, layout: Layout, pipeline: str, run_id: str) -> int:
    """Claim the next epoch.

    Two drivers that start at once get different numbers, because the loser tries the next number.
    """
    folder = layout.epochs(pipeline)
    epoch = newest_epoch(store, layout, pipeline) + 1
    claim = {"v": 1, "run_id": run_id, "at": datetime.now(UTC).isoformat()}
    while not store.create_json(f"{folder}/{epoch:08d}.json", {**claim, "epoch": epoch}):
        epoch += 1
    return epoch


def newest_epoch(store: Store, layout: Layout, pipeline: str) -> int:
    """Return the highest claimed epoch; 0 before the first."""
    names = store.list_names(layout.epochs(pipeline))
    return int(names[-1].partition(".")[0]) if names else 0
