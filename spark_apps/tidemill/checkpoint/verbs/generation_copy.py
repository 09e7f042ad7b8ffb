"""A checkpoint as it was after a batch, copied into another folder under a query id of its own.

What belongs to a batch, by file (Spark 4.2):

    offsets/N, commits/N            batch N; those after the last one are left out
    watermarks/N                    ours: the watermark of each of several streams after batch N
    state/…/V.changelog, .zip       state that batch V starts from; after batch N that is version N + 1
    state/…/SSTs, logs              what snapshots refer to, whatever their version
    state/<op>/_metadata/v2/N       the operator since batch N
    sources/<source>/L              files source: entry L of its log; the batch's offset names the last one
    sources/<source>/L.compact      all entries up to L
    sources/<source>/…              other sources: where they began
    warm_start.json                 ours: the past that the checkpoint began with

The files source takes every file of its log for read, so entries after the batch's must go, also those inside
a compact file. Hidden files are left out: Hadoop's `.N.crc` is not asked for when it is missing, and is taken
for a sign of damage when its file is another. Spark's own checksums of state files (`….changelog.crc`) are
copied: Spark verifies what it loads by them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tidemill.checkpoint.reading.log_files import OffsetsFile
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.source_logs import file_log_id, parse_log, source_names
from tidemill.checkpoint.stream_watermarks import WATERMARKS
from tidemill.checkpoint.verbs.backup_manifest import BackedUpFile, digest_of
from tidemill.checkpoint.warm_start import WARM_START
from tidemill.storage.advance import Told, Work, nobody_told
from tidemill.storage.store import Store

# Files copied at the same time. An object store answers in milliseconds, so a few at once hide the wait; more
# than this is of no use to a local disk.
PARALLEL_COPIES = 8

# Spark's default of spark.sql.streaming.fileSource.log.compactInterval, in entries.
COMPACT_INTERVAL = 10

_BATCH_FOLDERS = ("offsets/", "commits/", f"{WATERMARKS}/")
_BATCH_FILE = re.compile(rf"(?:offsets|commits|{WATERMARKS}|state/\d+/_metadata/v2)/(\d+)")
_STATE_FILE = re.compile(r"state/\d+/\d+/(?:[^/]+/)?(\d+)(?:_[0-9a-f-]{36})?\.[a-z.]+")
_LOG_ENTRY = re.compile(r"(\d+)(\.compact)?")
_COPIED = (*_BATCH_FOLDERS, "sources/", "state/", WARM_START)


@dataclass(frozen=True)
class CopyPlan:
    """What a copy consists of.

    Args:
        copied: Files taken as they are, by their path below the checkpoint.
        written: Files made anew: path and content.
    """

    copied: tuple[str, ...]
    written: dict[str, bytes]


def plan_copy(reader: CheckpointReader, batch_id: int, query_id: str) -> CopyPlan:
    """Decide what a copy after a batch consists of.

    Raises:
        LookupError: If the checkpoint does not hold the batch.
        TornFileError: If the log of a files source is torn.
    """
    offsets = reader.offsets(batch_id)
    if offsets is None:
        raise LookupError(f"offsets/{batch_id}")
    logs = _file_logs(reader, offsets)
    kept = (name for name in reader.names if is_kept(name, batch_id))
    copied = tuple(name for name in kept if _source_of(name) not in logs)
    written = {"metadata": json.dumps({"id": query_id}).encode()}
    for source, last in logs.items():
        written |= _log_until(reader, source, last)
    return CopyPlan(copied, written)


def copy_checkpoint(
    reader: CheckpointReader, batch_id: int, target: tuple[str, str], told: Told = nobody_told
) -> None:
    """Copy into a folder of the same storage that nobody else writes to, under a query id.

    Raises:
        FileNotFoundError: If a file is gone since it was listed.
    """
    folder, query_id = target
    plan = plan_copy(reader, batch_id, query_id)
    copied = copy_files(reader, plan, reader.store, folder, told)
    if gone := sorted({*plan.copied, *plan.written} - copied.keys()):
        raise FileNotFoundError(f"{reader.path}/{gone[0]}")


def logs_of_batch(reader: CheckpointReader, offsets: OffsetsFile) -> dict[str, bytes]:
    """The logs of the files sources as a batch needs them: all entries up to those that it reads.

    Raises:
        LookupError: If an entry is gone.
        TornFileError: If a log is torn.
    """
    logs = (_log_until(reader, source, last) for source, last in _file_logs(reader, offsets).items())
    return {name: content for log in logs for name, content in log.items()}


def copy_files(
    reader: CheckpointReader, plan: CopyPlan, store: Store, target: str, told: Told = nobody_told
) -> dict[str, BackedUpFile]:
    """Copy into a folder, perhaps of another storage; what was copied, without files that are gone by now."""

    def copy(name: str) -> tuple[str, BackedUpFile] | None:
        content = plan.written.get(name)
        if content is None:
            content = reader.store.read(f"{reader.path}/{name}")
        if content is None:
            return None
        store.write(f"{target}/{name}", content)
        return name, digest_of(content)

    names = [*plan.copied, *plan.written]
    work = Work("checkpoint", len(names), told)
    with ThreadPoolExecutor(PARALLEL_COPIES) as threads:
        copied = work.counted(threads.map(copy, names), lambda file: 0 if file is None else file[1].size)
        return dict(file for file in copied if file is not None)


def is_kept(name: str, batch_id: int) -> bool:
    """Return True if a copy after a batch takes the file of this path below the checkpoint."""
    if not name.startswith(_COPIED) or any(part.startswith(".") for part in name.split("/")):
        return False
    if (numbered := _BATCH_FILE.fullmatch(name)) is not None:
        return int(numbered[1]) <= batch_id
    if (version := _STATE_FILE.fullmatch(name)) is not None:
        return int(version[1]) <= batch_id + 1
    return not name.startswith(_BATCH_FOLDERS)


def _source_of(name: str) -> str:
    return name.split("/")[1] if name.startswith("sources/") else ""


def _file_logs(reader: CheckpointReader, offsets: OffsetsFile) -> dict[str, int]:
    """Newest entry of the log of each files source.

    A source that a query reads twice, as a join with itself does, has a line for each in `offsets/N`, and one
    log.
    """
    ends = {source: last for source, end in offsets.ends.items() if (last := file_log_id(end)) is not None}
    logs = {
        source: last for source, last in ends.items() if source in source_names(reader.path, reader.files)
    }
    lost = sorted(ends.keys() - logs.keys())
    if lost and (offsets.is_named or not logs):
        raise LookupError(f"sources/{lost[0]}")
    return logs


def _log_until(reader: CheckpointReader, source: str, last: int) -> dict[str, bytes]:
    """The log of a files source as it was when entry `last` was its newest.

    Made anew: the compact file before `last` may have been deleted once there was a newer one, which says of
    each entry what it was.
    """
    folder = f"sources/{source}"
    entries = _numbered(name[len(folder) + 1 :] for name in reader.names if name.startswith(f"{folder}/"))
    compact = max((number for number, name in entries.items() if name.endswith(".compact")), default=-1)
    by_entry: dict[int, list[Any]] = {}
    for number in [compact, *range(compact + 1, last + 1)] if compact >= 0 else range(last + 1):
        if number not in entries:
            raise LookupError(f"{folder}/{number}")
        for document in parse_log(reader.store.read(f"{reader.path}/{folder}/{entries[number]}") or b""):
            by_entry.setdefault(int(document["batchId"]), []).append(document)
    return _log_files(folder, by_entry, last)


def _log_files(folder: str, by_entry: Mapping[int, list[Any]], last: int) -> dict[str, bytes]:
    """The entries up to `last` as one compact file and single ones after it.

    From a single compact file Spark takes the distance between two: a divisor of its number plus one, not
    below the default. So it does not look for another one before `last`.
    """
    compact = (last + 1) // COMPACT_INTERVAL * COMPACT_INTERVAL - 1
    files = {}
    if compact >= 0:
        early = [document for number in range(compact + 1) for document in by_entry.get(number, [])]
        files[f"{folder}/{compact}.compact"] = _log_file(early)
    for number in range(compact + 1, last + 1):
        files[f"{folder}/{number}"] = _log_file(by_entry.get(number, []))
    return files


def _log_file(documents: Iterable[Any]) -> bytes:
    return "\n".join(["v1", *(json.dumps(d, separators=(",", ":")) for d in documents)]).encode()


def _numbered(names: Iterable[str]) -> dict[int, str]:
    """Names of log entries by number; a compact one stands for the plain one."""
    entries: dict[int, str] = {}
    for name in names:
        match = _LOG_ENTRY.fullmatch(name)
        if match is not None and (match[2] or int(match[1]) not in entries):
            entries[int(match[1])] = name
    return entries
