"""A listing of `_delta_log`: the readable versions, and their times. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidemill.storage.store import StoredFile

# On a local disk each file may have Hadoop's hidden checksum file, `.<name>.crc`.
_NAMED = re.compile(r"\.?(\d{20})\.(json|crc|checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet)(?:\.crc)?")


@dataclass(frozen=True)
class LogListing:
    """The log of a table.

    Args:
        commits: Write time of each commit file, by version.
        checkpoints: Write time of each complete checkpoint, by version.
        files: All files with a version, by path.
    """

    commits: Mapping[int, datetime]
    checkpoints: Mapping[int, datetime]
    files: Mapping[str, int]

    @property
    def newest(self) -> int:
        """Return the newest version."""
        return max(self.commits)

    @property
    def newest_checkpoint(self) -> int | None:
        """Return the version of the newest checkpoint."""
        return max(self.checkpoints, default=None)

    @property
    def readable_from(self) -> int | None:
        """Return the oldest version from which on all are readable; None if there is none.

        A version consists of the newest checkpoint at or before it and all commits since, or of all commits.
        """
        first = self.newest
        while first - 1 in self.commits:
            first -= 1
        if first == 0:
            return 0
        return min((version for version in self.checkpoints if version >= first - 1), default=None)

    def version_at(self, moment: datetime) -> int | None:
        """Return the newest version at a time; None if the log does not reach back that far.

        If times do not rise with versions, as in a copied table, returns an older version.
        """
        later = (version for version, written in self.commits.items() if written > moment)
        first_later = min(later, default=self.newest + 1)
        return first_later - 1 if first_later > min(self.commits) else None


def read_listing(files: Iterable[StoredFile]) -> LogListing | None:
    """Return the log, from the files directly below `_delta_log`; None without a commit."""
    commits: dict[int, datetime] = {}
    parts: dict[tuple[int, int], list[datetime]] = {}
    known: dict[str, int] = {}
    for file in files:
        name = file.path.rpartition("/_delta_log/")[2]
        match = _NAMED.fullmatch(name)
        if match is None:
            continue
        version = int(match[1])
        known[file.path] = version
        if name == f"{match[1]}.json":
            commits[version] = file.modified
        elif name.startswith(f"{match[1]}.checkpoint") and not name.endswith(".crc"):
            parts.setdefault((version, int(match[4] or 1)), []).append(file.modified)
    whole = {version: max(times) for (version, wanted), times in parts.items() if len(times) == wanted}
    return LogListing(commits, whole, known) if commits else None
