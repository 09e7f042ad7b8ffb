"""Version of its source table that a backfill reads while a stream runs: exactly what the stream has read.

The stream itself handles rejected and late rows of later commits. It never reads commits that change rows: it
skips them, or stops at them. If such a commit comes next, the backfill reads its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.backfill.live_side import LiveSide
from tidemill.backfill.refusal import refused
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.reading.source_logs import DeltaOffset, parse_delta_offset
from tidemill.errors import UsageError
from tidemill.ledger.commit_files import ChangedFiles, changed_files, files_of
from tidemill.ledger.read import open_table
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def whole_version(offset: DeltaOffset, files: int) -> int | None:
    """Return the newest version that a stream has read completely; None while it is inside a version.

    Args:
        offset: Position of the stream.
        files: Files to read in the version that the offset names.
    """
    if offset.index < 0:
        # Nothing of a first snapshot is read yet.
        return None if offset.is_snapshot else offset.version - 1
    return offset.version if offset.index + 1 >= files else None


def readable_version(read: int, behind: Sequence[ChangedFiles]) -> int | None:
    """Return the version with exactly the rows that a stream has read; None if there is none.

    Args:
        read: The newest version that the stream has read.
        behind: Each commit after it, in order.
    """
    unread = next(
        (place for place, commit in enumerate(behind) if commit.added and not commit.removed), len(behind)
    )
    # Rows changed there would be missing, and the newest version has unread ones.
    return None if any(commit.removed for commit in behind[unread:]) else read + unread


def version_read_live(store: Store, pipeline: Pipeline, live: LiveSide) -> int:
    """Return the version to read while a live stream runs.

    Raises:
        UsageError: TIDE-BACK-006, if no version has exactly the rows that the stream has read.
        DataError: TIDE-LEDG-001, if the table's log lacks a commit that the stream has yet to read.
    """
    source = pipeline.spec.source.chosen
    path = pipeline.layout.table(source.table)
    offset, table = _lowest_offset(store, pipeline, live), open_table(path)
    if offset is None or table is None:
        raise _refused(pipeline, "The live stream has not read this table.", {"generation": live.generation})
    facts = {"table": source.table, "version": offset.version, "newest_version": table.version()}
    whole = whole_version(offset, _files_to_read(path, offset))
    if whole is None:
        raise _refused(pipeline, "The live stream has read a part of a version of its table.", facts)
    version = readable_version(whole, changed_files(path, range(whole + 1, table.version() + 1)))
    if version is None:
        problem = "Rows of the table were changed after others that the live stream has yet to read."
        raise _refused(pipeline, problem, facts)
    return version


def _lowest_offset(store: Store, pipeline: Pipeline, live: LiveSide) -> DeltaOffset | None:
    """Return the offset that every use of the source has read; Spark reads for each use separately."""
    batches = CheckpointBatches(store, pipeline.layout.checkpoint(pipeline.name, live.generation))
    planned = None if live.batch_id is None else batches.offsets(live.batch_id)
    ends = [] if planned is None else map(parse_delta_offset, planned.ends.values())
    return min(
        (end for end in ends if end is not None), key=lambda end: (end.version, end.index), default=None
    )


def _files_to_read(path: str, offset: DeltaOffset) -> int:
    if offset.index < 0:
        return 0
    if offset.is_snapshot:
        return len(files_of(path, offset.version))
    (commit,) = changed_files(path, [offset.version])
    return commit.added


def _refused(pipeline: Pipeline, problem: str, facts: dict[str, object]) -> UsageError:
    return refused(
        "TIDE-BACK-006",
        pipeline.name,
        f"{problem} A backfill would take its rows twice, or miss some.",
        facts,
        f"wait until the stream has read on: tidemill status {pipeline.name}",
    )
