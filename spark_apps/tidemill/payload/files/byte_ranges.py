"""Byte ranges of files, as Spark's scan plans them, and the bytes of a file.

The scan (`io.tidemill.files.FileRanges`) gives a row for each range. A task opens the file itself: with the
operating system on a local disk, and with obstore elsewhere.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Protocol
from urllib.parse import unquote

import obstore
import pyarrow as pa
from obstore.exceptions import NotFoundError
from obstore.store import ObjectStore

from tidemill.errors import DataError, TidemillError, UnavailableError
from tidemill.payload.source_columns import (
    AS_LISTED,
    BATCH_TIME,
    FILE,
    FILE_TIME,
    RANGE_LENGTH,
    RANGE_LOCATION,
    RANGE_SIZE,
    RANGE_START,
)
from tidemill.storage.object_stores import Access
from tidemill.storage.objects import open_objects

# Bytes that are read at once. A task keeps a few blocks of this size in memory.
BLOCK_BYTES = 8 * 2**20

_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)

# Errors of the file itself, which are not retried. All other errors are those of the disk or mount.
_OF_THE_FILE = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG})


class FileBytes(Protocol):
    """The bytes of one file."""

    def read(self, start: int, length: int) -> bytes:
        """Return the bytes from `start`, fewer at the end of the file."""


@dataclass(frozen=True)
class FileRange:
    """One range of a file.

    Args:
        location: URI of the file.
        file: URI under which the file arrived, which rows and the quarantine name. An archived file has
            another `location`.
        modified: Modification time.
        start: First byte.
        length: Bytes of the range.
        size: Bytes of the file.
        clock: Time of the batch, if the pipeline limits how far event times may be ahead.
        access: Credentials for the storage.
        as_listed: True if only the file that the scan has listed may be read, with this size and modification
            time. Otherwise the file may have grown or been replaced.
    """

    location: str
    file: str
    modified: datetime
    start: int
    length: int
    size: int
    clock: datetime | None
    access: Access
    as_listed: bool = False

    @property
    def end(self) -> int:
        """Return the byte after the range."""
        return self.start + self.length

    @property
    def is_first(self) -> bool:
        """Return True if the range begins the file. Only this range reports problems of the whole file."""
        return self.start == 0

    @property
    def is_whole(self) -> bool:
        """Return True if the range is the whole file."""
        return self.is_first and self.length >= self.size

    @property
    def path(self) -> str:
        """Return the path of the file in the storage."""
        return unquote(self.location)

    @cached_property
    def content(self) -> FileBytes:
        """Return the bytes of the file."""
        scheme, _, rest = self.path.partition(":")
        if scheme == "file":
            return _LocalFile("/" + rest.lstrip("/"), self)
        bucket, _, key = rest.removeprefix("//").partition("/")
        return _StoredFile(open_objects(f"{scheme}://{bucket}", self.access), key, self)

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Read from `start` to before `end`, or to the end of the file.

        Raises:
            DataError: TIDE-DATA-012, if the file has fewer bytes than when it was planned; TIDE-SRC-011, if
                it cannot be opened.
            UnavailableError: TIDE-STOR-006, if its disk or mount does not work.
        """
        end = self.size if end is None else min(end, self.size)
        while start < end:
            block = self.content.read(start, min(BLOCK_BYTES, end - start))
            if not block:
                raise _changed(self, "it has fewer bytes than when its batch was planned")
            yield block
            start += len(block)

    def check_listed(self, size: int, modified: int, precision: int) -> None:
        """See that the file is the one that the scan has listed, if no other may be read.

        Args:
            size: Bytes of the file that is read.
            modified: Its modification time in milliseconds since 1970.
            precision: Precision of the storage's modification times, in milliseconds.

        Raises:
            DataError: TIDE-DATA-012.
        """
        listed = (self.modified - _EPOCH) // _MILLISECOND
        if self.as_listed and (size, modified // precision) != (self.size, listed // precision):
            raise _changed(self, "it has another size or modification time")


class _LocalFile:
    def __init__(self, path: str, range_: FileRange) -> None:
        self._range = range_
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise _gone(range_) from error
        except OSError as error:
            raise _unreadable(range_, error) from error
        self._check_listed()

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self._descriptor)

    def read(self, start: int, length: int) -> bytes:
        try:
            found = os.pread(self._descriptor, length, start)
        except OSError as error:
            raise _unreadable(self._range, error) from error
        # After the bytes: a change while they were read counts.
        self._check_listed()
        return found

    def _check_listed(self) -> None:
        if self._range.as_listed:
            status = os.fstat(self._descriptor)
            self._range.check_listed(status.st_size, status.st_mtime_ns // 1_000_000, 1)


class _StoredFile:
    def __init__(self, store: ObjectStore, key: str, range_: FileRange) -> None:
        self._store = store
        self._key = key
        self._range = range_

    def read(self, start: int, length: int) -> bytes:
        length = min(length, self._range.size - start)
        if length <= 0:
            return b""
        try:
            if not self._range.as_listed:
                return bytes(obstore.get_range(self._store, self._key, start=start, length=length))
            # One answer has the bytes, and the size and time of the object that they are of.
            found = obstore.get(self._store, self._key, options={"range": (start, start + length)})
        except (FileNotFoundError, NotFoundError) as error:
            raise _gone(self._range) from error
        modified = (found.meta["last_modified"] - _EPOCH) // _MILLISECOND
        self._range.check_listed(found.meta["size"], modified, 1_000)
        return bytes(found.bytes())


def _unreadable(range_: FileRange, error: OSError) -> TidemillError:
    facts = {"file": range_.path, "reason": os.strerror(error.errno or 0)}
    if error.errno in _OF_THE_FILE:
        return DataError(
            "TIDE-SRC-011",
            "A file that is read cannot be opened.",
            facts=facts,
            fix="let the driver's user read the file, or move it away, then start the pipeline",
            runbook="files-unreadable",
        )
    return UnavailableError(
        "TIDE-STOR-006",
        "The disk or the network mount of the files does not work.",
        facts=facts,
        fix="check the mount; interrupted work is repeated and nothing is lost",
        runbook="storage-unavailable",
    )


def _gone(range_: FileRange) -> DataError:
    return _changed(range_, "it is not there")


def _changed(range_: FileRange, reason: str) -> DataError:
    return DataError(
        "TIDE-DATA-012",
        "A file of the batch was removed or changed after the batch was planned.",
        facts={"file": range_.path, "reason": reason},
        fix="put the file back as it was; the runbook shows how to go on without it",
        runbook="source-files-gone",
    )


def ranges_of(batch: pa.RecordBatch, access: Access) -> list[FileRange]:
    """Return the ranges of the scan's rows."""
    as_listed = AS_LISTED in batch.schema.names
    clocks = batch[BATCH_TIME].to_pylist() if BATCH_TIME in batch.schema.names else [None] * len(batch)
    names = (RANGE_LOCATION, FILE, FILE_TIME, RANGE_START, RANGE_LENGTH, RANGE_SIZE)
    columns = [batch[name].to_pylist() for name in names]
    return [
        FileRange(location, file, modified, start, length, size, clock, access, as_listed)
        for location, file, modified, start, length, size, clock in zip(*columns, clocks, strict=True)
    ]
