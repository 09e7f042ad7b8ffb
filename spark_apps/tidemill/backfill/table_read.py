"""Which version of its source table a backfill beside a live stream reads: what the stream has read, no more.

What is rejected or late in the commits behind it, the stream will set aside itself. Commits that change rows
it never reads: it skips them, or stops at them. Where one comes next, its rows are for the backfill.
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
    """The newest version of which a stream has read every file; None while it is in the middle of one.

    Args:
        offset: How far it has read.
        files: Files to read in the version that the offset names.
    """
    if offset.index < 0:
        # Of a first snapshot nothing is read yet.
        return None if offset.is_snapshot else offset.version - 1
    return offset.version if offset.index + 1 >= files else None


def readable_version(read: int, behind: Sequence[ChangedFiles]) -> int | None:
    """The version that has what a stream has read and no row that it will read; None if there is none.

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
    """The version to read beside a live stream.

    Raises:
        UsageError: TIDE-BACK-006, if no version has what the stream has read, and nothing that it will read.
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
    """What every use of the source has read: Spark asks for each use by itself."""
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
