"""The small files of a Spark checkpoint: `metadata`, `offsets/N`, `commits/N`.

Formats (Spark 4.2, OffsetSeqLog and CommitLog): the first line is a version, `v1`, `v2` and so on.
`offsets/N` then has one JSON line of batch metadata and one line per source. `commits/N` has one JSON line.
Continuous processing has no batches and leaves the metadata line empty.

In `v1` offsets, a source is identified by its index, here "0", "1" and so on, and `-` marks a source without
data. In `v2`, the line begins with the source's name and a colon. The version of `commits/N` is the version
of the state format: `v1` without unique ids of state files, `v2` with them, and `v3` also with names of
sinks.

A truncated file is refused, with two exceptions that its content cannot reveal: offsets that were cut exactly
between two sources, or inside an offset that is a bare number. A caller that knows the number of sources
passes it. (`v2` has a field for a list of sources, `sourceMetadataInfo`, but Spark 4.2.0 leaves it empty.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


class TornFileError(ValueError):
    """The content is not what Spark writes: truncated, empty, or of an unknown version."""


@dataclass(frozen=True)
class OffsetsFile:
    """One planned batch, or a note of continuous processing about its read position.

    Args:
        batch_id: Number of the batch.
        version: Version of the format.
        ends: End offset document of each source; None for a source without data.
        watermark: Event-time watermark that the batch runs with; None before the first event.
        planned_at: Time when Spark planned it.
        conf: Settings that Spark pinned when the query was created.
        is_note: True if continuous processing wrote it. Then it records what was read and plans nothing.
    """

    batch_id: int
    version: int
    ends: Mapping[str, Any]
    watermark: datetime | None = None
    planned_at: datetime | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    is_note: bool = False

    @property
    def is_named(self) -> bool:
        """Return True if its sources are identified by name."""
        return self.version == _NAMED_SOURCES


@dataclass(frozen=True)
class CommitsFile:
    """One finished batch.

    Args:
        batch_id: Number of the batch.
        version: Version of the format.
        next_watermark: Watermark of the next batch; None before the first event.
        state_ids: Unique ids of the stores of each partition, by operator, as in the names of the state
            files. Empty with state format 1 and without state.
    """

    batch_id: int
    version: int
    next_watermark: datetime | None = None
    state_ids: Mapping[int, tuple[tuple[str, ...], ...]] = field(default_factory=dict)


def parse_metadata(content: bytes) -> str:
    """Return the query id in `metadata`.

    Raises:
        TornFileError: If there is none.
    """
    try:
        return str(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise TornFileError(str(error)) from error


def parse_offsets(batch_id: int, content: bytes, sources: int | None = None) -> OffsetsFile:
    """Parse one file of `offsets/`.

    Args:
        batch_id: Name of the file.
        content: Whole content.
        sources: Number of the query's sources, if known.

    Raises:
        TornFileError: If it is not what Spark writes.
    """
    version, (head, *lines) = _versioned(content, _OFFSETS_VERSIONS)
    ends = _named_ends(lines) if version == _NAMED_SOURCES else _numbered_ends(lines)
    if not ends or (sources is not None and len(ends) != sources):
        raise TornFileError(f"{len(ends)} of {sources or 'some'} sources")
    if not head and version != _NAMED_SOURCES:
        return OffsetsFile(batch_id, version, ends, is_note=True)
    metadata = _document(head)
    return OffsetsFile(
        batch_id,
        version,
        ends,
        _moment(metadata, "batchWatermarkMs"),
        _moment(metadata, "batchTimestampMs"),
        _conf(metadata),
    )


def parse_commits(batch_id: int, content: bytes) -> CommitsFile:
    """Parse one file of `commits/`.

    Raises:
        TornFileError: If it is not what Spark writes.
    """
    version, lines = _versioned(content, _COMMITS_VERSIONS)
    if len(lines) != 1:
        raise TornFileError(f"{len(lines)} lines after the version")
    metadata = _document(lines[0])
    return CommitsFile(batch_id, version, _moment(metadata, "nextBatchWatermarkMs"), _state_ids(metadata))


# Spark refuses versions that it does not know, and so does Tidemill.
_OFFSETS_VERSIONS = (1, 2)
_COMMITS_VERSIONS = (1, 2, 3)
_NAMED_SOURCES = 2

# First line of a file with named sources.
NAMED_HEAD = f"v{_NAMED_SOURCES}"

# Maximum timestamp of a datetime, in milliseconds. A later watermark comes from a broken event, not from a
# broken file.
_LATEST_MILLISECONDS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)


def _versioned(content: bytes, known: tuple[int, ...]) -> tuple[int, list[str]]:
    """Return the version and the lines after it, at least one."""
    try:
        first, *lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise TornFileError(str(error)) from error
    version = re.fullmatch(r"v([0-9]{1,4})", first)
    if version is None or int(version[1]) not in known or not lines:
        raise TornFileError(f"begins with {first[:20]!a}")
    return int(version[1]), lines


def _document(line: str) -> Mapping[str, Any]:
    document = _json(line)
    if not isinstance(document, dict):
        raise TornFileError("the metadata line is no JSON object")
    return document


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise TornFileError(str(error)) from error


def _end(line: str) -> Any:
    return None if line == "-" else _json(line)


def _numbered_ends(lines: list[str]) -> dict[str, Any]:
    return {str(place): _end(line) for place, line in enumerate(lines)}


def _named_ends(lines: list[str]) -> dict[str, Any]:
    ends = {}
    for line in lines:
        name, colon, offset = line.partition(":")
        if not name or not colon:
            raise TornFileError("a line of named offsets has no name")
        ends[name] = _end(offset)
    return ends


def _moment(metadata: Mapping[str, Any], key: str) -> datetime | None:
    milliseconds = metadata.get(key)
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool):
        raise TornFileError(f"{key} is missing")
    if milliseconds <= 0:
        return None
    return datetime.fromtimestamp(min(milliseconds, _LATEST_MILLISECONDS) / 1000, tz=UTC)


def _conf(metadata: Mapping[str, Any]) -> dict[str, str]:
    conf = metadata.get("conf", {})
    if not isinstance(conf, dict):
        raise TornFileError("conf is no JSON object")
    return {str(key): str(value) for key, value in conf.items()}


def _state_ids(metadata: Mapping[str, Any]) -> dict[int, tuple[tuple[str, ...], ...]]:
    try:
        return {
            int(operator): tuple(tuple(str(store) for store in stores) for stores in partitions)
            for operator, partitions in (metadata.get("stateUniqueIds") or {}).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise TornFileError("stateUniqueIds are not lists of lists") from error
