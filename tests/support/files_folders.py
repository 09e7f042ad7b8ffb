"""Folders of files sinks as Spark leaves them, made without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tidemill.ledger.files_log import CLAIMS, LOG, Claim


def entry_of(folder: Path, batch: str, *files: str) -> None:
    """Write an entry of Spark's log: `3`, or `9.compact`."""
    lines = ["v1"]
    for file in files:
        action = {
            "path": f"file://{quote(f'{folder}/{file}')}",
            "size": (folder / file).stat().st_size,
            "isDir": False,
            "modificationTime": 0,
            "blockReplication": 1,
            "blockSize": 33554432,
            "action": "add",
        }
        lines.append(json.dumps(action))
    (folder / LOG).mkdir(parents=True, exist_ok=True)
    (folder / LOG / batch).write_text("\n".join(lines))


def claim_of(folder: Path, layout: str, **changes: object) -> None:
    """Write the claim of the pipeline `orders`."""
    known: Mapping[str, object] = {"root": "", "pipeline": "orders", "generation": "g0001", "after_batch": -1}
    claim = Claim.model_validate({**known, "layout": layout, **changes})
    (folder / CLAIMS).mkdir(parents=True, exist_ok=True)
    name = f"{claim.pipeline}-{claim.generation}-0.json"
    (folder / CLAIMS / name).write_text(claim.model_dump_json())
