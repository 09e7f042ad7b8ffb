"""Which files of a files source may go. Pure.

A file goes if all of this holds:

1. The live generation has read it in a batch that no rewind takes back: one that is committed, and older than
   how far a rewind goes (`points.py`).
2. Each older generation, and each backup, that can be gone back to has read it as well.
3. It is old enough, by its own time.
4. It is there, and what is there is what was read.
5. It has one name for all clients of the store.
6. Another file stays: an object store forgets an empty folder, and Spark does not start without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidemill.checkpoint.reading.source_logs import ReadFile
from tidemill.storage.store import StoredFile

# Most files that one run takes of one stream: a copy each, of about 10 ms on an object store, so a minute or
# so, and 1 MB of names.
MAX_FILES = 10_000

CHANGED = "changed since they were read"
OTHER_NAME = "have names that not every client of the store takes alike"
YOUNG = "younger than asked"
NEWEST = "the newest, which stays so that the folder does"


@dataclass(frozen=True)
class Candidate:
    """A file that the live generation has read for good.

    Args:
        name: Below the source's folder.
        read: What the checkpoint says of it.
        stored: What is there under its name now; None if nothing is.
        needed_by: What can be gone back to, and would read it again.
        has_one_name: Whether all clients of the store call it alike.
        archived_size: Bytes of the file of its name in the archive; None if there is none.
    """

    name: str
    read: ReadFile
    stored: StoredFile | None
    needed_by: tuple[str, ...] = ()
    has_one_name: bool = True
    archived_size: int | None = None

    @property
    def is_changed(self) -> bool:
        """Whether something else is there by now; stores count whole seconds."""
        return self.stored is not None and _second(self.stored.modified) != _second(self.read.modified)

    @property
    def is_another(self) -> bool:
        """Whether a file of its name and of another size is in the archive: that one was read."""
        return self.stored is not None and self.archived_size not in (None, self.stored.size)


@dataclass(frozen=True)
class FilesDecision:
    """What becomes of the files of one stream.

    Args:
        goes: Files that go, those that were read first at the front.
        stays: How many stay, by reason.
        more: How many more could go than one run takes.
    """

    goes: tuple[Candidate, ...] = ()
    stays: Mapping[str, int] = field(default_factory=dict)
    more: int = 0

    @property
    def size(self) -> int:
        """Bytes of what goes."""
        return sum(file.stored.size for file in self.goes if file.stored is not None)


def decide_files(
    candidates: Iterable[Candidate], before: datetime, others: int, limit: int = MAX_FILES
) -> FilesDecision:
    """Choose.

    Args:
        candidates: Files that were read for good.
        before: A file is old enough if its time is not after this.
        others: How many other files are in the folder.
        limit: Most files.
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
