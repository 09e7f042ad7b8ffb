"""What a table's maintenance does: facts in, a plan out. Pure.

1. Small files are put together, if there are enough of them and delta-rs can do it.
2. The log gets a checkpoint, if that would shorten reading it.
3. `oldest_needed` is the oldest version that someone may still read: the retention, a rewind, a backup, a
   pipeline that reads the table. A data file is deleted only if no version from there on has it, and if it is
   older than the retention: files of a commit that is on its way belong to no version yet.
4. Log files go only by Delta's own retention, and only as far as every version from there on can be read.

Where it cannot be known what someone needs, nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemill.ledger.small_files import DataFile, why_left, worth_merging
from tidemill.maintenance.log_listing import LogListing
from tidemill.storage.store import StoredFile

# Commits since the newest checkpoint; Delta makes one every 100 (delta-rs) or 10 (Spark) by itself.
MIN_COMMITS = 10


@dataclass(frozen=True)
class Need:
    """Someone who may still read an older version.

    Args:
        who: In words.
        version: The oldest that it needs.
        since: Or the moment: the version that was the newest then, and all later ones.
    """

    who: str
    version: int | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class TableFacts:
    """What a plan is made from.

    Args:
        table: Name.
        log: Its log.
        files: Of the newest version.
        stored: All files in the folder, but for those of the log.
        keeps_files: How long removed files stay, at least.
        keeps_log: How long the log stays; None if it is never cleaned up.
        needs: Who may still read older versions.
        unknown: Why it cannot be told what someone needs.
        newest_entry: Version with the newest ledger entry of a writer, the oldest of several; None without
            any. A driver and the gate ask the log for it.
        unsupported: Why only Spark can rewrite the table; empty if delta-rs can.
    """

    table: str
    log: LogListing
    files: tuple[DataFile, ...]
    stored: tuple[StoredFile, ...]
    keeps_files: timedelta
    keeps_log: timedelta | None
    needs: tuple[Need, ...] = ()
    unknown: tuple[str, ...] = ()
    newest_entry: int | None = None
    unsupported: str = ""


@dataclass(frozen=True)
class Floor:
    """The oldest version that must stay readable.

    Args:
        version: None if it cannot be told; then nothing may be deleted.
        because: Who needs it, or why it cannot be told.
    """

    version: int | None
    because: str


@dataclass(frozen=True)
class Decision:
    """What is to be done; a reason stands where nothing is.

    Args:
        compact: Number of small files to put together; 0 for none.
        compact_left: Why they are left.
        checkpoint: Whether the log gets a checkpoint.
        floor: Up to where nothing may be deleted.
        files_before: A data file that was written later stays.
        log_before: Log files of older versions go; None if all stay.
    """

    compact: int
    compact_left: str
    checkpoint: bool
    floor: Floor
    files_before: datetime
    log_before: int | None


def decide(facts: TableFacts, now: datetime) -> Decision:
    """What to do with a table now."""
    floor = oldest_needed(facts, now)
    before, expired = _log_before(facts, floor, now)
    small = worth_merging(facts.files)
    left = why_left(small, facts.unsupported)
    if not left and before != expired:
        # deltalake 1.6.6 cleans up the log after this commit, whatever it is told.
        left = f"its commit would remove expired log files that are needed: {floor.because}, or the ledger"
    compact = 0 if left else len(small)
    since = facts.log.newest - (-1 if facts.log.newest_checkpoint is None else facts.log.newest_checkpoint)
    return Decision(
        compact,
        left,
        not facts.unsupported and (compact > 0 or since >= MIN_COMMITS),
        floor,
        now - facts.keeps_files,
        before,
    )


def oldest_needed(facts: TableFacts, now: datetime) -> Floor:
    """The oldest version that someone may still read."""
    readable = facts.log.readable_from
    if facts.unsupported:
        return Floor(None, f"needs Spark: {facts.unsupported}")
    if facts.unknown:
        return Floor(None, "; ".join(facts.unknown))
    if readable is None:
        return Floor(None, "the log has no checkpoint from which its commits could be read")
    retention = Need("the retention of removed files", since=now - facts.keeps_files)
    wanted = [(_version_of(need, facts.log), need) for need in (retention, *facts.needs)]
    version, need = min(wanted, key=lambda found: found[0])
    # What is older cannot be read any more, whoever wants it.
    return Floor(min(max(version, readable), facts.log.newest), need.who)


def unneeded_files(
    stored: Iterable[StoredFile], folder: str, needed: Collection[str], before: datetime
) -> list[StoredFile]:
    """Data files, and checksums of such, that no version has that someone may read.

    Args:
        stored: Files in the table's folder.
        folder: That folder.
        needed: Files of all versions that may be read, by path below the folder.
        before: A file that was written later stays.
    """
    return [
        file
        for file in stored
        if file.modified < before
        and (name := data_file(file.path[len(folder) + 1 :])) is not None
        and name not in needed
    ]


def data_file(name: str) -> str | None:
    """The data file that a file is, or is the checksum of; None for anything else."""
    *folders, last = name.split("/")
    # Hidden folders are not Delta's data, but for the one of the change feed.
    if any(part.startswith((".", "_")) and "=" not in part for part in folders if part != "_change_data"):
        return None
    if last.startswith(".") and last.endswith(".crc"):
        last = last[1:-4]
    if last.startswith((".", "_")) or not last.endswith(".parquet"):
        return None
    return "/".join([*folders, last])


def _log_before(facts: TableFacts, floor: Floor, now: datetime) -> tuple[int | None, int | None]:
    """The checkpoint from which the log goes on, and that by its retention alone; None if nothing goes."""
    end = None if facts.keeps_log is None else facts.log.version_at(now - facts.keeps_log)
    if end is None:
        return None, None
    expired = log_before(facts.log, end)
    if floor.version is None:
        return None, expired
    until = min(end, floor.version, end if facts.newest_entry is None else facts.newest_entry)
    return log_before(facts.log, until), expired


def log_before(log: LogListing, until: int) -> int | None:
    """The checkpoint from which a version can be read; None if no log file is older.

    Args:
        log: The log.
        until: Every version from this one on must stay readable.
    """
    keep = max((version for version in log.checkpoints if version <= until), default=0)
    return keep if any(version < keep for version in log.files.values()) else None


def _version_of(need: Need, log: LogListing) -> int:
    if need.version is not None:
        return need.version
    found = None if need.since is None else log.version_at(need.since)
    return -1 if found is None else found
