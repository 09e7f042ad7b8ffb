"""The files of a hub's archive, with the sequence numbers in each of them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import obstore

from tidemill.capture.events import CapturedEvent, read_events
from tidemill.capture.spans import Span, repeated, union
from tidemill.spec.capture import CaptureArchive, CapturePath, PathFormat
from tidemill.storage.access import access_to
from tidemill.storage.object_stores import Access
from tidemill.storage.objects import open_objects

# Files read in parallel, one of each partition, to hide the latency of an object store.
FILES_AT_ONCE = 8

# Bytes of a file read at a time, one request each on an object store; Capture's files have up to 500 MB.
READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Run:
    """Consecutive events of a file without a gap.

    Args:
        first: Lowest sequence number.
        end: One above the highest.
        earliest: Earliest enqueued time.
        latest: Latest enqueued time.
    """

    first: int
    end: int
    earliest: datetime
    latest: datetime


@dataclass(frozen=True)
class ArchiveFile:
    """One file.

    Args:
        path: Path below the archive's folder.
        partition: Number of its partition.
        moment: Begin of its window, from its path.
        runs: Its runs of events, ascending.
        twice: Numbers that it contains more than once.
    """

    path: str
    partition: int
    moment: datetime
    runs: tuple[Run, ...]
    twice: tuple[Span, ...] = ()


class _AsBytes(io.RawIOBase):
    """An object of a store as a file of the standard library; obstore's own files return buffers."""

    def __init__(self, file: obstore.ReadableFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


# Returns True if files of the partition that are older than this one need not be read.
Enough = Callable[[ArchiveFile], bool]


class ArchiveFolder:
    """The folder of a hub's archive.

    Args:
        folder: Full path of the archive's folder.
        paths: The format of its paths.
        access: Access to its store; by default that of this process.
    """

    def __init__(self, folder: str, paths: PathFormat, access: Access | None = None) -> None:
        self._paths = paths
        self._objects = open_objects(folder, access_to(folder) if access is None else access)

    def files(self) -> dict[int, list[tuple[CapturePath, str]]]:
        """Return the paths of each partition's files, the newest window first; other files are left out."""
        found: dict[int, list[tuple[CapturePath, str]]] = {}
        for page in obstore.list(self._objects, self._paths.folder or None):
            for entry in page:
                told = self._paths.parse(entry["path"])
                if told is not None:
                    found.setdefault(told.partition, []).append((told, entry["path"]))
        for paths in found.values():
            paths.sort(key=lambda each: (each[0].moment, each[1]), reverse=True)
        return found

    def index(self, enough: Enough) -> dict[int, list[ArchiveFile]]:
        """Return the contents of each partition's files, from the newest back to the first that is enough.

        Each of these files is read completely, because Capture stores the numbers only with the events.

        Raises:
            DataError: TIDE-HUB-001 or -002.
        """
        listed = self.files()
        with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
            found = threads.map(lambda paths: list(self._until(paths, enough)), listed.values())
            return dict(zip(listed, found, strict=True))

    def events(self, path: str) -> Iterator[CapturedEvent]:
        """Return the events of one file.

        Raises:
            FileNotFoundError: If it is gone.
            DataError: TIDE-HUB-001 or -002.
        """
        file = _AsBytes(obstore.open_reader(self._objects, path))
        return read_events(path, io.BufferedReader(file, READ_BYTES))

    def _until(self, paths: Iterable[tuple[CapturePath, str]], enough: Enough) -> Iterator[ArchiveFile]:
        for told, path in paths:
            runs, twice = runs_of(self.events(path))
            file = ArchiveFile(path, told.partition, told.moment, runs, twice)
            yield file
            if enough(file):
                return


def archive_folder(archive: CaptureArchive, folder: str, namespace: str, hub: str) -> ArchiveFolder:
    """Return the archive of one hub, whose folder has this full path."""
    return ArchiveFolder(folder, PathFormat(archive, namespace, hub))


def runs_of(events: Iterable[CapturedEvent]) -> tuple[tuple[Run, ...], tuple[Span, ...]]:
    """Return runs of sequence numbers, from events in any order, and the numbers that occur repeatedly."""
    parts: list[Run] = []
    for event in events:
        number, moment = event.number, event.enqueued
        last = parts[-1] if parts else None
        if last is not None and number == last.end:
            times = min(last.earliest, moment), max(last.latest, moment)
            parts[-1] = Run(last.first, number + 1, *times)
        else:
            parts.append(Run(number, number + 1, moment, moment))
    spans = [(run.first, run.end) for run in parts]
    return tuple(_joined(span, parts) for span in union(spans)), repeated(spans)


def _joined(span: Span, parts: Iterable[Run]) -> Run:
    inside = [run for run in parts if span[0] <= run.first < span[1]]
    return Run(*span, min(run.earliest for run in inside), max(run.latest for run in inside))
