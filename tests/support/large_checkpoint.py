"""A healthy checkpoint of thousands of files, as a windowed query over Kafka leaves it, made by hand."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support import checkpoint_files
from tests.support.checkpoint_files import with_twin
from tidemill.spec.state_store import PROVIDER_SETTING, PROVIDERS

OPERATORS = ((0, "stateStoreSave"), (1, "dedupe"))
# Number of versions between two snapshots, as with Spark's minDeltasForSnapshot.
SNAPSHOT_EVERY = 10
# Watermark and planning time of every batch, in milliseconds since 1970.
WATERMARK_MS, PLANNED_MS = 1_700_000_000_000, 1_700_000_600_000
CONF = {"spark.sql.shuffle.partitions": "10", PROVIDER_SETTING: PROVIDERS["rocksdb"]}


@dataclass(frozen=True)
class LargeCheckpoint:
    """Size of the checkpoint to write.

    Args:
        batches: Batches that are kept in `offsets/`, `commits/` and the state.
        partitions: Partitions of each operator.
        topic: The topic of the query, with 8 partitions.
    """

    batches: int = 61
    partitions: int = 9
    topic: str = "iot_events"

    def write(self, folder: Path) -> int:
        """Write it, batches numbered from 1,000; returns the number of files."""
        files = self.files()
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return len(files)

    def files(self) -> dict[str, bytes]:
        """Content by path below the checkpoint; each call makes another one."""
        return dict(self._files())

    def _files(self) -> Iterator[tuple[str, bytes]]:
        yield from with_twin("metadata", checkpoint_files.metadata(str(uuid.UUID(int=1)))).items()
        yield from with_twin("sources/0/0", checkpoint_files.initial_offsets(self._offsets(0))).items()
        for operator, name in OPERATORS:
            described = checkpoint_files.operator(operator, name, self.partitions)
            yield from with_twin(f"state/{operator}/_metadata/metadata", described).items()
        for batch_id in range(1000, 1000 + self.batches):
            yield from with_twin(f"offsets/{batch_id}", self._planned(batch_id)).items()
            yield from with_twin(f"commits/{batch_id}", self._committed(batch_id)).items()
            yield from self._state(batch_id + 1)

    def _offsets(self, batch_id: int) -> dict[str, dict[str, int]]:
        return {self.topic: {str(partition): 500 * batch_id for partition in range(8)}}

    def _planned(self, batch_id: int) -> bytes:
        ends = self._offsets(batch_id)
        return checkpoint_files.planned(ends, watermark_ms=WATERMARK_MS, at_ms=PLANNED_MS, conf=CONF)

    def _committed(self, batch_id: int) -> bytes:
        ids = {
            str(operator): [
                [_unique(operator, partition, batch_id + 1)] for partition in range(self.partitions)
            ]
            for operator, _ in OPERATORS
        }
        return checkpoint_files.committed(ids, watermark_ms=WATERMARK_MS)

    def _state(self, version: int) -> Iterator[tuple[str, bytes]]:
        for operator, _ in OPERATORS:
            for partition in range(self.partitions):
                start = f"state/{operator}/{partition}/{version}_{_unique(operator, partition, version)}"
                yield from _with_checksum(f"{start}.changelog", b"c" * 400)
                if version % SNAPSHOT_EVERY == 1:
                    data = f"{version:06d}-{uuid.uuid4()}.sst"
                    yield f"state/{operator}/{partition}/SSTs/{data}", b"s" * 2000
                    yield from _with_checksum(f"{start}.zip", _snapshot(data, 2000))


def _unique(operator: int, partition: int, version: int) -> str:
    return str(uuid.UUID(int=(operator * 1000 + partition) * 10**9 + version))


def _snapshot(data: str, size: int) -> bytes:
    held = {"localFileName": data, "dfsSstFileName": data, "sizeBytes": size}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [held], "numKeys": 7}))
    return content.getvalue()


def _with_checksum(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a state file, Spark's checksum of it, and Hadoop's of both."""
    checksum = {"algorithm": "CRC32C", "value": 0, "mainFileSize": len(content), "timestampMs": 1}
    yield from with_twin(name, content).items()
    yield from with_twin(f"{name}.crc", json.dumps(checksum).encode()).items()
