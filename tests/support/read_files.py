"""The records of files and topics as the tasks of a driver decode them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from tests.support.declared import declared
from tidemill.payload.decode import payload_decoding
from tidemill.payload.discovered import DiscoveredColumns
from tidemill.payload.files.readers import file_reader
from tidemill.payload.files.reading import file_decoding
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.source_columns import (
    FILE,
    FILE_TIME,
    RANGE_LENGTH,
    RANGE_LOCATION,
    RANGE_SIZE,
    RANGE_START,
)
from tidemill.spec.project import Pipeline

_ARRIVED = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass
class Rejected:
    """One row of the quarantine."""

    reason: str
    value: bytes | None
    file: str | None = None
    line: int | None = None


@dataclass
class Decoded:
    """Rows and rejected records of some bytes."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.rejected]


class _Collected(Quarantine):
    """Keeps rejected records in memory."""

    def __init__(self, into: list[Rejected]) -> None:
        object.__setattr__(self, "into", into)
        super().__init__("quarantine", "run", None)  # type: ignore[arg-type]  # no accumulator

    def write(self, rejected: Sequence[pa.RecordBatch]) -> None:
        for row in pa.Table.from_batches(rejected).to_pylist():
            file = row["file"] and row["file"].rpartition("/landing/")[2]
            self.into.append(Rejected(row["reason"], row["value"], file, row["line"]))  # type: ignore[attr-defined]


def files_pipeline(folder: Path, files: Mapping[str, Any], **keys: Any) -> Pipeline:
    """Return a pipeline that reads files below `folder/data/landing`."""
    source = {"files": {"path": "landing", **files}}
    return declared(folder, source=source, **keys)


def read_files(
    folder: Path,
    contents: Mapping[str, bytes],
    files: Mapping[str, Any],
    range_bytes: int | None = None,
    report: Any = None,
    **keys: Any,
) -> Decoded:
    """Decode files, in the order of their names.

    Args:
        folder: Folder of the project.
        contents: Bytes by name.
        files: Keys of the files source.
        range_bytes: Length of the ranges that files are cut into; None for whole files.
        report: Takes the names in the files.
        keys: Keys of the pipeline.
    """
    return _decoded(files_pipeline(folder, files, **keys), contents, (None, report), range_bytes)


def _decoded(
    pipeline: Pipeline,
    contents: Mapping[str, bytes],
    reads: tuple[DiscoveredColumns | None, Any],
    range_bytes: int | None,
) -> Decoded:
    landing = Path(pipeline.layout.folder("landing"))
    rows = []
    for name, content in contents.items():
        path = landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        rows += list(_ranges(path, len(content), range_bytes))
    found = Decoded()
    decoding = file_decoding(pipeline, file_reader(pipeline, *reads), _Collected(found.rejected))
    batch = pa.RecordBatch.from_pylist(rows, schema=_SCAN)
    for decoded in decoding.stage(iter([batch])):
        assert decoded.schema.equals(decoding.arrow_schema)
        decoded.validate(full=True)
        found.rows += decoded.to_pylist()
    return found


_SCAN = pa.schema(
    [
        (RANGE_LOCATION, pa.string()),
        (FILE, pa.string()),
        (FILE_TIME, pa.timestamp("us", "UTC")),
        (RANGE_START, pa.int64()),
        (RANGE_LENGTH, pa.int64()),
        (RANGE_SIZE, pa.int64()),
    ]
)


def _ranges(path: Path, size: int, range_bytes: int | None) -> Iterator[dict[str, Any]]:
    length = range_bytes or max(size, 1)
    uri = "file:" + quote(str(path), safe="/=:+*;,@")
    for start in range(0, max(size, 1), length):
        places = {RANGE_START: start, RANGE_LENGTH: min(length, size - start), RANGE_SIZE: size}
        yield {RANGE_LOCATION: uri, FILE: uri, FILE_TIME: _ARRIVED, **places}


def read_topic(folder: Path, records: Sequence[bytes | None], payload: Mapping[str, Any]) -> Decoded:
    """Decode records of a topic."""
    pipeline = declared(folder, source={"kafka": {"topic": "orders"}}, payload=payload)
    found = Decoded()
    assert pipeline.spec.payload is not None
    decoding = payload_decoding(pipeline, pipeline.spec.payload, _Collected(found.rejected))
    count = len(records)
    batch = pa.RecordBatch.from_pydict(
        {
            "kafka_key": pa.nulls(count, pa.binary()),
            "kafka_value": pa.array(records, pa.binary()),
            "kafka_topic": pa.repeat("orders", count),
            "kafka_partition": pa.repeat(pa.scalar(0, pa.int32()), count),
            "kafka_offset": pa.arange(0, count),
            "kafka_timestamp": pa.array([_ARRIVED] * count, pa.timestamp("us", "UTC")),
        }
    )
    for decoded in decoding.stage(iter([batch])):
        rows = decoded.drop_columns([name for name in decoded.schema.names if name.startswith("kafka_")])
        found.rows += rows.to_pylist()
    return found


def read_discovered(folder: Path, contents: Mapping[str, bytes], discovered: DiscoveredColumns) -> Decoded:
    """Decode files whose columns are discovered."""
    file_format = "json" if discovered.csv is None else "csv"
    options = {} if discovered.csv is None else {"sep": discovered.csv.separator}
    files = {"format": file_format, "schema_evolution": discovered.evolution, "options": options}
    sinks = [{"delta": {"table": "bronze/orders", "schema_evolution": "add_columns"}}]
    return _decoded(files_pipeline(folder, files, sinks=sinks), contents, (discovered, None), None)
