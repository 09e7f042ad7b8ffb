"""Checkpoint folders in the format of Spark 4.2, written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_checkpoint(
    folder: Path,
    planned: Sequence[int],
    committed: Sequence[int],
    query_id: str = "2f1c",
    topic: str = "orders",
) -> None:
    """A checkpoint of a query over one topic, whose batch N ends at offset 10 * (N + 1)."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": query_id}))
    (folder / "sources/0/0").write_bytes(b"\0v1\n" + json.dumps({topic: {"0": 0}}).encode())
    for batch_id in planned:
        write_planned(folder, batch_id, {topic: {"0": 10 * (batch_id + 1)}})
    for batch_id in committed:
        (folder / "commits" / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def write_planned(folder: Path, batch_id: int, *ends: Any, watermark_ms: int = 0) -> Path:
    """One file of `offsets/`; a source without data is None."""
    metadata = json.dumps({"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1, "conf": {}})
    lines = ["v1", metadata, *("-" if end is None else json.dumps(end) for end in ends)]
    file = folder / "offsets" / str(batch_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines))
    return file
