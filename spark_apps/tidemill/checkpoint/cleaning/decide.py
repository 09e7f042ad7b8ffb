"""Decide which files of a files source may be removed. Pure.

A file may be removed if all of this is true:

1. The live generation has read it in a committed batch that no rewind undoes, because the batch is older than
   the rewind window (`points.py`).
2. Every older generation and every backup that an operation can return to has also read it.
3. It is old enough, by its modification time.
4. It exists, and it is the file that was read.
5. All clients of the store use the same name for it.
6. Another file stays, because an object store forgets an empty folder, and Spark does not start without the
   folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidemill.checkpoint.reading.source_logs import ReadFile
from tidemill.storage.store import StoredFile

# Maximum number of files that one run removes per stream. Each is a copy of about 10 ms on an object store,
# so a run takes about a minute and its names take 1 MB.
MAX_FILES = 10_000

CHANGED = "changed since they were read"
OTHER_NAME = "have names that not every client of the store takes alike"
YOUNG = "younger than asked"
NEWEST = "the newest, which stays so that the folder does"


@dataclass(frozen=True)
class Candidate:
    """A file that the live generation will not read again.

    Args:
        name: Path below the source's folder.
        read: Log entry in the checkpoint.
        stored: Current file with its name; None if there is none.
        needed_by: Generations and backups that would read it again after a return to them.
        has_one_name: True if all clients of the store use the same name for it.
        archived_size: Size of the file with its name in the archive; None if there is none.
    """

    name: str
    read: ReadFile
    stored: StoredFile | None
    needed_by: tuple[str, ...] = ()
    has_one_name: bool = True
    archived_size: int | None = None

    @property
    def is_changed(self) -> bool:
        """Return True if another file has this name now; stores count whole seconds."""
        return self.stored is not None and _second(self.stored.modified) != _second(self.read.modified)

    @property
    def is_another(self) -> bool:
        """Return True if the file that was read is in the archive: same name, but another size."""
        return self.stored is not None and self.archived_size not in (None, self.stored.size)


@dataclass(frozen=True)
class FilesDecision:
    """The decision for the files of one stream.

    Args:
        goes: Files to remove, in the order in which they were read.
        stays: Number of files that stay, by reason.
        more: Number of files beyond the limit of one run.
    """

    goes: tuple[Candidate, ...] = ()
    stays: Mapping[str, int] = field(default_factory=dict)
    more: int = 0

    @property
    def size(self) -> int:
        """Return the total size of the files to remove, in bytes."""
        return sum(file.stored.size for file in self.goes if file.stored is not None)


def decide_files(
    candidates: Iterable[Candidate], before: datetime, others: int, limit: int = MAX_FILES
) -> FilesDecision:
    """Choose the files to remove.

    Args:
        candidates: Files that will not be read again.
        before: Maximum modification time of a file to remove.
        others: Number of other files in the folder.
        limit: Maximum number of files.
    """
    goes: list[Candidate] = []
    stays: Counter[str] = Counter()
    for file in sorted(candidates, key=lambda file: (file.read.log_id, file.name)):
        if file.stored is None:
            continue
        reason = _why_it_stays(file, before)
        if reason:
            stays[reason] += 1
        else:
            goes.append(file)
    if goes and not others and not stays:
        newest = max(goes, key=lambda file: (file.read.modified, file.name))
        goes.remove(newest)
        stays[NEWEST] += 1
    return FilesDecision(tuple(goes[:limit]), dict(stays), len(goes[limit:]))


def _why_it_stays(file: Candidate, before: datetime) -> str:
    if not file.has_one_name:
        return OTHER_NAME
    if file.is_changed or file.is_another:
        return CHANGED
    if file.read.modified > before:
        return YOUNG
    return f"needed by {', '.join(file.needed_by)}" if file.needed_by else ""


def _second(moment: datetime) -> int:
    return int(moment.timestamp())
