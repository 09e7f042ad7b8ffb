"""Snapshots of a checkpoint's state that only grows."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from tests.support.checkpoint_files import operator

MB = 2**20


def write_grown_state(checkpoint: Path, name: str = "dedupe") -> None:
    """Write two partitions of an operator, which grow by 10 MB in each of six snapshots, over 50 batches."""
    metadata = checkpoint / "state/0/_metadata/metadata"
    metadata.parent.mkdir(parents=True)
    metadata.write_bytes(operator(0, name, 2))
    for partition in ("state/0/0", "state/0/1"):
        for place, version in enumerate(range(10, 70, 10), 1):
            _write_snapshot(checkpoint / partition, version, place * 10 * MB)


def _write_snapshot(partition: Path, version: int, size: int) -> None:
    """Write a RocksDB snapshot as Spark does: a zip that names the data file in the same folder."""
    (partition / "SSTs").mkdir(parents=True, exist_ok=True)
    name = f"{version:06}-x.sst"
    with (partition / "SSTs" / name).open("wb") as data:
        data.truncate(size)
    described = {"sstFiles": [{"localSstName": "1.sst", "dfsSstFileName": name, "sizeBytes": size}]}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(described))
    (partition / f"{version}.zip").write_bytes(content.getvalue())
