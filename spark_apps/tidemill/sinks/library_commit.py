"""Commits by delta-rs: those with a log checkpoint, and those to tables with further features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltalake import CommitProperties, PostCommitHookProperties, Transaction
from deltalake.transaction import AddAction

from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.commit_file import is_plain
from tidemill.storage.parquet_part import PartFile

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Versions between two log checkpoints, unless the table asks for more checkpoints; the default of delta-rs. A
# checkpoint is made after versions 99, 199, …. That lists the log, and so does the search for expired files,
# which would find little in between.
CHECKPOINT_EVERY = 100
_INTERVAL = "delta.checkpointInterval"


def is_for_library(table: DeltaTable, version: int) -> bool:
    """Return True if delta-rs must make the commit of a version."""
    return not is_plain(table) or _ends(version, CHECKPOINT_EVERY) or _ends(version, _interval(table))


def add_files(table: DeltaTable, parts: Sequence[PartFile], commit: BatchCommit, now: int) -> None:
    """Commit files, with the hooks that delta-rs runs after a commit.

    Args:
        table: The current table. delta-rs refuses a commit whose app id was used since.
        parts: The files.
        commit: Its transaction and ledger entry.
        now: Milliseconds since 1970.

    Raises:
        CommitFailedError: deltalake's error if another writer committed, or if it does not know a feature of
            the table.
        DeltaError: deltalake's error if it cannot commit to such a table.
    """
    due = _ends(table.version() + 1, CHECKPOINT_EVERY)
    table.create_write_transaction(
        [AddAction(part.name, part.size, {}, now, True, part.statistics) for part in parts],
        mode="append",
        schema=table.schema(),
        partition_by=[],
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": commit.entry.to_text()},
            app_transactions=[Transaction(commit.app_id, commit.batch_id, now)],
        ),
        # Expired log files are deleted at a checkpoint if the table's properties say so, and never in
        # between.
        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=None if due else False),
    )


def _ends(version: int, interval: int) -> bool:
    return (version + 1) % interval == 0


def _interval(table: DeltaTable) -> int:
    asked = table.metadata().configuration.get(_INTERVAL, "")
    return int(asked) if asked.isdecimal() and int(asked) else CHECKPOINT_EVERY
