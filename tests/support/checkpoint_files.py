"""Contents of a checkpoint's files as Spark 4.2 writes them; the caller knows their paths."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.checkpoint.gate.checksum import checksum_of


def metadata(query_id: str) -> bytes:
    """Return the content of `metadata`."""
    return _json({"id": query_id})


def initial_offsets(offsets: Any) -> bytes:
    """Return Kafka's `sources/N/0`, the start of the first batch."""
    return b"\0v1\n" + _json(offsets)


def planned(
    *ends: Any, watermark_ms: int = 0, at_ms: int = 1, conf: Mapping[str, str] | None = None
) -> bytes:
    """Return `offsets/N` with the end of each source; None means a source without data."""
    head = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": at_ms, "conf": dict(conf or {})}
    return b"\n".join([b"v1", _json(head), *(b"-" if end is None else _json(end) for end in ends)])


def committed(state_ids: Mapping[str, Sequence[Sequence[str]]] | None = None, watermark_ms: int = 0) -> bytes:
    """Return `commits/N`, in version 1, or in version 2 with the ids of each operator's state."""
    document: dict[str, Any] = {"nextBatchWatermarkMs": watermark_ms}
    if state_ids is None:
        return b"v1\n" + _json(document)
    return b"v2\n" + _json({**document, "stateUniqueIds": state_ids})


def operator(number: int, name: str, partitions: int) -> bytes:
    """Return `state/N/_metadata/metadata`."""
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}
    info = {"operatorId": number, "operatorName": name}
    return b"v1\n" + _json({"operatorInfo": info, "stateStoreInfo": [store]})


def with_twin(path: str, content: bytes) -> dict[str, bytes]:
    """Return a file and Hadoop's hidden checksum of it, by path."""
    folder, slash, name = path.rpartition("/")
    return {path: content, f"{folder}{slash}.{name}.crc": checksum_of(content)}


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
