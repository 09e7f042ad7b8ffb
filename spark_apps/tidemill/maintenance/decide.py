"""Decision about a table's maintenance: facts in, a plan out. Pure.

1. Small files are compacted, if there are enough of them and delta-rs supports the table.
2. The log gets a checkpoint, if that shortens reading it.
3. `oldest_needed` is the oldest version that may still be read: by the retention, a rewind, a backup, or a
   pipeline that reads the table. A data file is deleted only if no version from there on contains it, and if
   it is older than the retention, because files of an unfinished commit belong to no version yet.
4. Log files are deleted only by Delta's own retention, and only if every version from there on stays
   readable.

If a need cannot be determined, nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemill.ledger.small_files import DataFile, why_left, worth_merging
from tidemill.maintenance.log_listing import LogListing
from tidemill.storage.store import StoredFile

# Minimum commits since the newest checkpoint; Delta itself writes one every 100 (delta-rs) or 10 (Spark)
# commits.
MIN_COMMITS = 10


@dataclass(frozen=True)
class Need:
    """A reader that may still read an older version.

    Args:
        who: Readable description.
        version: Oldest version that it needs.
        since: Alternatively a time: the newest version at that time and all later ones.
    """

    who: str
    version: int | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class TableFacts:
    """Facts from which a plan is made.

    Args:
        table: Name.
        log: Its log.
        files: Files of the newest version.
        stored: All files in the folder, except those of the log.
        keeps_files: Minimum retention of removed files.
        keeps_log: Retention of the log; None if it is never cleaned up.
        needs: Readers that may still read older versions.
        unknown: Reasons why a need cannot be determined.
        newest_entry: Version with the newest ledger entry of a writer, the oldest of several; None without
            any. A driver and the gate read it from the log.
        unsupported: Reason why only Spark can rewrite the table; empty if delta-rs can.
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
        version: None if it cannot be determined; then nothing may be deleted.
        because: The reader that needs it, or the reason why it cannot be determined.
    """

    version: int | None
    because: str


@dataclass(frozen=True)
class Decision:
    """The actions to take, with reasons for skipped ones.

    Args:
        compact: Number of small files to compact; 0 for none.
        compact_left: Reason why they are not compacted.
        checkpoint: True if the log gets a checkpoint.
        floor: Oldest version that must stay readable.
        files_before: Data files that were written later stay.
        log_before: Log files of older versions are deleted; None if all stay.
    """

    compact: int
    compact_left: str
    checkpoint: bool
    floor: Floor
    files_before: datetime
    log_before: int | None


def decide(facts: TableFacts, now: datetime) -> Decision:
    """Return the decision about a table now."""
    floor = oldest_needed(facts, now)
    before, expired = _log_before(facts, floor, now)
    small = worth_merging(facts.files)
    left = why_left(small, facts.unsupported)
    if not left and before != expired:
        # deltalake 1.6.6 cleans up the log after this commit, regardless of its settings.
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
    """Return the oldest version that may still be read."""
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
    # Older versions are no longer readable, even if a reader needs them.
    return Floor(min(max(version, readable), facts.log.newest), need.who)


def unneeded_files(
    stored: Iterable[StoredFile], folder: str, needed: Collection[str], before: datetime
) -> list[StoredFile]:
    """Return the data files, and their checksums, that no readable version contains.

    Args:
        stored: Files in the table's folder.
        folder: That folder.
        needed: Files of all versions that may be read, by path below the folder.
        before: Files that were written later stay.
    """
    return [
        file
        for file in stored
        if file.modified < before
        and (name := data_file(file.path[len(folder) + 1 :])) is not None
        and name not in needed
    ]


def data_file(name: str) -> str | None:
    """Return the data file that a file is, or whose checksum it is; None for any other file."""
    *folders, last = name.split("/")
    # Hidden folders do not belong to Delta's data, except the one of the change feed.
    if any(part.startswith((".", "_")) and "=" not in part for part in folders if part != "_change_data"):
        return None
    if last.startswith(".") and last.endswith(".crc"):
        last = last[1:-4]
    if last.startswith((".", "_")) or not last.endswith(".parquet"):
        return None
    return "/".join([*folders, last])


def _log_before(facts: TableFacts, floor: Floor, now: datetime) -> tuple[int | None, int | None]:
    """Return the checkpoint where the log will begin, and the one by retention alone; None if none."""
    end = None if facts.keeps_log is None else facts.log.version_at(now - facts.keeps_log)
    if end is None:
        return None, None
    expired = log_before(facts.log, end)
    if floor.version is None:
        return None, expired
    until = min(end, floor.version, end if facts.newest_entry is None else facts.newest_entry)
    return log_before(facts.log, until), expired


def log_before(log: LogListing, until: int) -> int | None:
    """Return the checkpoint from which a version can be read; None if no log file is older.

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
