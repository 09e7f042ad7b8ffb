"""Bringing a table back to an older version, so that no driver of the old side can write on.

A RESTORE takes back rows and keeps transaction versions. A driver that was fenced off while it wrote would
still commit its batch afterwards: so its transaction id is closed, with the restore or before it, and both
writers then take the batch for one that is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tidemill.errors import GateRefusedError, UnavailableError
from tidemill.ledger.read import Commit, commits_of, open_table
from tidemill.names import transaction_id

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

# Transaction version of an id that nobody may use any more: above every batch number, and a Java long.
CLOSED = 2**62

# Commits lost to other writers before the restore gives up. Each loss means that somebody else, such as table
# maintenance, got a commit in; our own drivers are fenced off by then.
COMMIT_ATTEMPTS = 10

# Features that delta-rs restores as Spark does. With others it refuses to write, or compares files by name
# alone although their deletion vectors differ.
_RESTORABLE_FEATURES = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "generatedColumns", "timestampNtz", "v2Checkpoint"}
)

# Operations that change how rows are stored and no row; taking them back loses nothing but the work.
_MAINTENANCE = frozenset({"OPTIMIZE", "REORG", "VACUUM START", "VACUUM END", "COMPUTE STATS", "RESTORE"})

_NOTE = "restored_by"


@dataclass(frozen=True)
class TableRestore:
    """One table to bring back.

    Args:
        path: Of the table.
        version: To restore.
        request_id: Who restores; the same request restores once.
        known: Newest version that the plan knew; a commit of somebody else after it is not taken back. None
            takes back whatever came after `version`.
        closes: Transaction ids that nobody may use any more.
    """

    path: str
    version: int
    request_id: str
    known: int | None = None
    closes: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What the commit says of itself, in `userMetadata`."""
        return json.dumps({"v": 1, _NOTE: self.request_id})


# Restores one table; a repeated call changes nothing.
RestoreTable = Callable[[TableRestore], None]


def restore_through_delta_rs(wanted: TableRestore) -> None:
    """Restore a table, once for each request.

    Raises:
        GateRefusedError: TIDE-CKPT-040 if somebody else has written since, TIDE-CKPT-072 if the version is
            gone, TIDE-CKPT-073 if only Spark can restore the table.
        UnavailableError: TIDE-SINK-002, if other writers won every attempt.
    """
    for _ in range(COMMIT_ATTEMPTS):
        table = open_existing(wanted.path)
        action = next_action(commits_of(table), is_closed(table, wanted), wanted)
        if action == "done":
            return
        if reason := spark_needed(table):
            raise _needs_spark(wanted.path, reason)
        _commit(table, wanted, action)
    raise UnavailableError(
        "TIDE-SINK-002",
        "Other writers won every attempt to commit.",
        facts={"table": wanted.path, "attempts": COMMIT_ATTEMPTS},
        fix="see who writes: tidemill ledger; then run the same command again",
    )


def next_action(
    newest_first: Sequence[Commit], closed: bool, wanted: TableRestore
) -> Literal["done", "close", "restore"]:
    """What is still to do.

    Where nothing is to be taken back the ids are closed without a RESTORE, so that others may write on.

    Raises:
        GateRefusedError: TIDE-CKPT-040, if a commit of somebody else would be taken back.
    """
    if any(commit.operation == "RESTORE" and commit.note == wanted.note for commit in newest_first):
        return "done"
    if wanted.known is None:
        return "restore"
    since = [commit for commit in newest_first if commit.version > wanted.known]
    ours = [commit for commit in since if _app_id(commit) in wanted.closes]
    if wanted.version >= wanted.known and not ours:
        return "done" if closed else "close"
    strangers = [commit for commit in since if commit not in ours and not changes_no_row(commit)]
    if strangers:
        raise written_by_others(wanted.path, strangers)
    return "restore"


def changes_no_row(commit: Commit) -> bool:
    """Whether a commit is maintenance, or closed ids."""
    return commit.operation in _MAINTENANCE or (commit.note is not None and _NOTE in commit.note)


def is_closed(table: DeltaTable, wanted: TableRestore) -> bool:
    """Whether nobody can use the ids any more."""
    return all(table.transaction_version(app_id) == CLOSED for app_id in wanted.closes)


def spark_needed(table: DeltaTable) -> str:
    """Why delta-rs cannot restore the table; empty if it can."""
    protocol = table.protocol()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return ", ".join(sorted(features - _RESTORABLE_FEATURES))


def open_existing(path: str) -> DeltaTable:
    """A table that must be there.

    Raises:
        GateRefusedError: TIDE-CKPT-072, if it is not.
    """
    table = open_table(path)
    if table is None:
        raise version_is_gone(path, None, "there is no table")
    return table


def written_by_others(path: str, commits: Iterable[Commit]) -> GateRefusedError:
    """The refusal to take back what is not this pipeline's."""
    named = [f"{c.version}: {c.operation}{_author(c)}" for c in commits]
    return GateRefusedError(
        "TIDE-CKPT-040",
        "Others have written to the table after that moment, and their rows would be taken back, too. "
        "Spark's RESTORE would do so without a word.",
        facts={"table": path, "commits": named[:10], "count": len(named)},
        fix="choose a later batch; or keep the rows aside, and write them again afterwards",
        runbook="rewind",
    )


def version_is_gone(path: str, version: int | None, reason: str) -> GateRefusedError:
    """The refusal of a version whose log or data files are not there any more."""
    return GateRefusedError(
        "TIDE-CKPT-072",
        "The table cannot be brought back to that version: a part of it is not there any more. "
        "Spark would fail while it restores, or while it reads afterwards.",
        facts={"table": path, "version": version, "reason": " ".join(reason.split())[:300]},
        fix="choose a newer batch, or keep the tables and begin anew: tidemill checkpoint reset",
        runbook="rewind",
    )


def _app_id(commit: Commit) -> str | None:
    entry = commit.entry
    if entry is None or entry.generation is None:
        return None
    return transaction_id(entry.pipeline, entry.generation, entry.output)


def _author(commit: Commit) -> str:
    return "" if commit.entry is None else f" by {commit.entry.pipeline} ({commit.entry.mode})"


def _commit(table: DeltaTable, wanted: TableRestore, action: Literal["close", "restore"]) -> None:
    """Do it in one commit, unless somebody else commits meanwhile."""
    from deltalake import CommitProperties, Transaction
    from deltalake.exceptions import CommitFailedError, DeltaError

    before = table.version()
    properties = CommitProperties(
        custom_metadata={"userMetadata": wanted.note},
        # delta-rs would go on after a commit that came between, whose files this one does not know.
        max_commit_retries=0,
        app_transactions=[Transaction(app_id, CLOSED) for app_id in wanted.closes],
    )
    try:
        if action == "restore":
            table.restore(wanted.version, commit_properties=properties)
        else:
            _write_nothing(table, properties)
    except CommitFailedError:
        if open_existing(wanted.path).version() == before:
            raise
    except DeltaError as error:
        raise version_is_gone(wanted.path, wanted.version, str(error)) from error


def _write_nothing(table: DeltaTable, properties: CommitProperties) -> None:
    table.create_write_transaction(
        [], mode="append", schema=table.schema(), partition_by=[], commit_properties=properties
    )


def _needs_spark(path: str, features: str) -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CKPT-073",
        "Only Spark can restore this table.",
        facts={"table": path, "features": features},
        fix="use the command line, which starts Spark for such a table",
        runbook="rewind",
    )
