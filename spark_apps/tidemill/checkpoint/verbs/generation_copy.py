"""Copy a checkpoint as it was after a batch into another folder, under a new query id.

The files of a batch (Spark 4.2):

    offsets/N, commits/N            batch N; later batches are left out
    watermarks/N                    Tidemill's: the watermark of each of several streams after batch N
    state/…/V.changelog, .zip       state that batch V starts from; after batch N that is version N + 1
    state/…/SSTs, logs              files that snapshots refer to, of any version
    state/<op>/_metadata/v2/N       the operator since batch N
    sources/<source>/L              files source: entry L of its log; the batch's offset names the last one
    sources/<source>/L.compact      all entries up to L
    sources/<source>/…              other sources: where they began
    warm_start.json                 Tidemill's: the past that the checkpoint began with

The files source treats every file in its log as read. So entries after the batch's last one must be removed,
even from a compact file. Hidden files are left out: Hadoop does not need `.N.crc`, but a `.N.crc` of another
file looks like damage. Spark's own checksums of state files (`….changelog.crc`) are copied, because Spark
uses them to verify the files it loads.
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

# Files copied concurrently. An object store answers in milliseconds, so a few at once hide its latency. More
# would not help on a local disk.
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
    """The files of a copy.

    Args:
        copied: Files copied unchanged, by path below the checkpoint.
        written: New files: path and content.
    """

    copied: tuple[str, ...]
    written: dict[str, bytes]


def plan_copy(reader: CheckpointReader, batch_id: int, query_id: str) -> CopyPlan:
    """Decide which files a copy after a batch has.

    Raises:
        LookupError: If the checkpoint does not have the batch.
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
    """Copy into a folder of the same storage, under the given query id. No other process may write there.

    Raises:
        FileNotFoundError: If a file was deleted after the listing.
    """
    folder, query_id = target
    plan = plan_copy(reader, batch_id, query_id)
    copied = copy_files(reader, plan, reader.store, folder, told)
    if gone := sorted({*plan.copied, *plan.written} - copied.keys()):
        raise FileNotFoundError(f"{reader.path}/{gone[0]}")


def logs_of_batch(reader: CheckpointReader, offsets: OffsetsFile) -> dict[str, bytes]:
    """Return the logs of the files sources with all entries up to those that a batch reads.

    Raises:
        LookupError: If an entry is gone.
        TornFileError: If a log is torn.
    """
    logs = (_log_until(reader, source, last) for source, last in _file_logs(reader, offsets).items())
    return {name: content for log in logs for name, content in log.items()}


def copy_files(
    reader: CheckpointReader, plan: CopyPlan, store: Store, target: str, told: Told = nobody_told
) -> dict[str, BackedUpFile]:
    """Copy into a folder of this or another storage; return the copied files, without those deleted since."""

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
    """Return the newest log entry of each files source.

    If a query reads a source twice, as in a self-join, the source has two lines in `offsets/N` but one log.
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
    """Return the log of a files source as it was when entry `last` was the newest.

    It is built again, because Spark may have deleted the compact file before `last` once a newer one existed.
    The newer compact file still says which entry each file belongs to.
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
    """Return the entries up to `last` as one compact file followed by single files.

    From a single compact file Spark derives the compact interval: a divisor of its number plus one, at least
    the default. So Spark does not look for another compact file before `last`.
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
    """Return the names of log entries by number; a compact file replaces the plain one."""
    entries: dict[int, str] = {}
    for name in names:
        match = _LOG_ENTRY.fullmatch(name)
        if match is not None and (match[2] or int(match[1]) not in entries):
            entries[int(match[1])] = name
    return entries
