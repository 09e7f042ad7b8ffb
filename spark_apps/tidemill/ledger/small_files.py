"""Find the small data files of a table, and decide if they can be merged without Spark.

Maintenance and advice use the result.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tidemill.names import COLUMN_MAPPING

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Maximum size of a small file. delta-rs writes files of 100 MB by default.
SMALL_FILE = 50 * 2**20

# Minimum number of small files. Fewer are not worth a commit, which could make a concurrent MERGE fail.
MIN_SMALL_FILES = 16

# Maximum bytes that one task merges; more is work for executors.
MAX_BYTES = 4 * 2**30

# Table features that delta-rs rewrites as Spark does. It cannot keep a table clustered, and refuses unknown
# features.
SUPPORTED_FEATURES = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "generatedColumns", "changeDataFeed", "timestampNtz"}
)


@dataclass(frozen=True)
class DataFile:
    """A data file of the newest version.

    Args:
        name: Path below the table's folder.
        size: Size in bytes.
        partition: Values of the partition columns, as text.
    """

    name: str
    size: int
    partition: str = ""


def worth_merging(files: Iterable[DataFile]) -> list[DataFile]:
    """Return the small files that have other small files in their partition."""
    by_partition: dict[str, list[DataFile]] = {}
    for file in files:
        if file.size < SMALL_FILE:
            by_partition.setdefault(file.partition, []).append(file)
    return [file for found in by_partition.values() if len(found) > 1 for file in found]


def why_left(small: Collection[DataFile], only_spark: str) -> str:
    """Return why small files are not merged; empty if they are.

    Args:
        small: Result of `worth_merging`.
        only_spark: Result of `unsupported`.
    """
    if len(small) < MIN_SMALL_FILES:
        return f"{len(small)} small files are too few"
    size = sum(file.size for file in small)
    if only_spark:
        return f"needs Spark: {only_spark}"
    return f"needs Spark: {size} bytes in small files" if size > MAX_BYTES else ""


def unsupported(delta: DeltaTable, files: Collection[DataFile]) -> str:
    """Return why only Spark can rewrite the table; empty if delta-rs can."""
    protocol, properties = delta.protocol(), delta.metadata().configuration
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} - SUPPORTED_FEATURES
    if properties.get(COLUMN_MAPPING, "none") != "none":
        features.add("columnMapping")
    if any(":" in file.name for file in files):
        features.add("files of another table")
    return ", ".join(sorted(features))


def data_files(delta: DeltaTable) -> Iterator[DataFile]:
    """Yield the data files of the newest version."""
    columns = delta.get_add_actions()
    names = [str(name) for name in columns.column_names]
    for row in zip(*(columns.column(name).to_pylist() for name in names), strict=True):
        action = dict(zip(names, row, strict=True))
        partition = json.dumps(action.get("partition") or {}, default=str, sort_keys=True)
        yield DataFile(unquote(str(action["path"])), int(action["size_bytes"]), partition)
