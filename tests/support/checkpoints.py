"""Checkpoint folders in the format of Spark 4.2, written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import checkpoint_files
from tidemill.checkpoint.reading.batches import CheckpointBatches

# Id of a Delta table that a source reads.
TABLE_ID = "21f13d18-d916-49af-9023-d65f91474da1"


def write_checkpoint(
    folder: Path,
    planned: Sequence[int],
    committed: Sequence[int],
    query_id: str = "2f1c",
    topic: str = "orders",
) -> None:
    """Write a checkpoint of a query over one topic, whose batch N ends at offset 10 * (N + 1)."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_bytes(checkpoint_files.metadata(query_id))
    (folder / "sources/0/0").write_bytes(checkpoint_files.initial_offsets({topic: {"0": 0}}))
    for batch_id in planned:
        write_planned(folder, batch_id, {topic: {"0": 10 * (batch_id + 1)}})
    for batch_id in committed:
        (folder / "commits" / str(batch_id)).write_bytes(checkpoint_files.committed())


def range_of(batches: CheckpointBatches, batch_id: int) -> tuple[Any, Any]:
    """Start and end offset document of a batch of one source."""
    planned = batches.planned(batch_id)
    assert planned is not None
    ((start, end),) = batches.ranges_of(planned).values()
    return start, end


def write_planned(folder: Path, batch_id: int, *ends: Any, watermark_ms: int = 0, at_ms: int = 1) -> Path:
    """Write one file of `offsets/`; None means a source without data."""
    file = folder / "offsets" / str(batch_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(checkpoint_files.planned(*ends, watermark_ms=watermark_ms, at_ms=at_ms))
    return file


def write_note(folder: Path, number: int, end: Any) -> Path:
    """Write one file of `offsets/` as continuous processing does, without a batch."""
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    file = folder / f"offsets/{number}"
    file.write_text(f"v1\n\n{json.dumps(end)}")
    return file


def track_schema(folder: Path, number: int, version: int, *columns: str) -> Path:
    """Return one entry of the schema log that a Delta source with schema tracking keeps."""
    fields = [{"name": column, "type": "long", "nullable": True, "metadata": {}} for column in columns]
    document = {
        "tableId": TABLE_ID,
        "deltaCommitVersion": version,
        "dataSchemaJson": json.dumps({"type": "struct", "fields": fields}),
    }
    file = folder / "_schema_log" / f"_schema_log_{TABLE_ID}" / str(number)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("v1\n" + json.dumps(document))
    return file
