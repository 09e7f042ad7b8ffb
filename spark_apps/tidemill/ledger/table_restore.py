"""Hand over a table to a new generation: restore it, close it to the old generations, begin the new one.

A RESTORE undoes rows and keeps transaction versions. So a driver that was fenced while it wrote could still
commit its batch afterwards. To prevent this, the transaction ids of the old generations are closed with the
RESTORE or before it. A driver that finds its id closed ends as fenced. The commit is also the first of the
new generation: its ledger entry has mode `base` and names the last batch in the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.lost_race import LostRaceError, Race
from tidemill.ledger.read import RESTORED_BY, Commit, History, open_table

if TYPE_CHECKING:
    from deltalake import DeltaTable, Transaction

# Transaction version of a closed id: above every batch number, and a Java long.
CLOSED = 2**62

# Features of tables that delta-rs restores as Spark does. With other features it refuses to write, or
# compares files by name alone although their deletion vectors differ.
_RESTORABLE_FEATURES = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "generatedColumns", "timestampNtz", "v2Checkpoint"}
)


@dataclass(frozen=True)
class TableRestore:
    """One table to hand over to a new generation.

    Args:
        path: Path of the table.
        version: Version to restore.
        known: Newest version that the plan knew; later commits of other writers are never undone.
        base: First entry of the new generation; its query id is unique to this request.
        closes: Transaction ids to close.
    """

    path: str
    version: int
    known: int
    base: LedgerEntry
    closes: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Return the `userMetadata` of a commit next to the one with the entry."""
        return json.dumps({"v": 1, RESTORED_BY: self.base.query_id})

    @property
    def note_of_regret(self) -> str:
        """Return the `userMetadata` of the commit that undoes a RESTORE."""
        return json.dumps({"v": 1, RESTORED_BY: f"{self.base.query_id} taken back"})

    def to_text(self) -> str:
        """Return an argument for the Spark process that hands over tables delta-rs cannot."""
        return json.dumps({**asdict(self), "base": self.base.to_text()})

    @staticmethod
    def from_text(text: str) -> TableRestore:
        """Parse the result of `to_text`."""
        document = json.loads(text)
        base = LedgerEntry.model_validate_json(document["base"])
        return TableRestore(**{**document, "base": base, "closes": tuple(document["closes"])})


# Hands over one table; a repeated call changes nothing.
RestoreTable = Callable[[TableRestore], None]


def restore_through_delta_rs(wanted: TableRestore) -> None:
    """Hand over a table, once for each request, in one commit.

    Raises:
        GateRefusedError: TIDE-CKPT-040 if another writer has committed since, TIDE-CKPT-072 if the version is
            gone, TIDE-CKPT-073 if only Spark can write the table.
        UnavailableError: TIDE-SINK-002, if other writers won every attempt.
    """

    def attempt() -> None:
        table = open_existing(wanted)
        action = next_action(commits_since(wanted, table), wanted)
        if action == "done":
            return
        if reason := spark_needed(table):
            raise _needs_spark(wanted.path, reason)
        _commit(table, wanted, action)

    fix = f"see who writes: tidemill ledger {wanted.base.pipeline}; then run the same command again"
    Race({"table": wanted.path}, fix).until_won(attempt)


def commits_since(wanted: TableRestore, table: DeltaTable) -> list[Commit]:
    """Return the commits after the plan, newest first."""
    return list(takewhile(lambda commit: commit.version > wanted.known, History(wanted.path, table)))


def has_begun(path: str, query_id: str | None, known: int) -> bool:
    """Return True if an operation's first commit of a generation is in the table, after a known version."""
    commits = takewhile(lambda commit: commit.version > known, History(path, open_table(path)))
    return any(_begins(commit, query_id) for commit in commits)


def next_action(since: Sequence[Commit], wanted: TableRestore) -> Literal["done", "begin", "restore"]:
    """Return the next action, from the commits after the plan.

    If nothing is to be undone, the generation begins without a RESTORE, so that other writers can continue.

    Raises:
        GateRefusedError: TIDE-CKPT-040, if a commit of another writer would be undone.
    """
    if any(_begins(commit, wanted.base.query_id) for commit in since):
        return "done"
    notes = (wanted.note, wanted.note_of_regret)
    restored = next((c.note for c in since if c.operation == "RESTORE" and c.note in notes), None)
    if restored == wanted.note:
        return "begin"
    ours = [c for c in since if c.entry and c.entry.transaction and c.entry.transaction[0] in wanted.closes]
    if wanted.version >= wanted.known and not ours:
        return "begin"
    strangers = [commit for commit in since if commit not in ours and not commit.changes_no_row]
    if strangers:
        raise written_by_others(wanted.path, strangers)
    return "restore"


def spark_needed(table: DeltaTable) -> str:
    """Return why delta-rs cannot restore the table; empty if it can."""
    protocol = table.protocol()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return ", ".join(sorted(features - _RESTORABLE_FEATURES))


def open_existing(wanted: TableRestore) -> DeltaTable:
    """Open the table, which must exist.

    Raises:
        GateRefusedError: TIDE-CKPT-072, if it does not.
    """
    table = open_table(wanted.path)
    if table is None:
        raise version_is_gone(wanted.base.pipeline, wanted.path, None, "there is no table")
    return table


def written_by_others(path: str, commits: Iterable[Commit]) -> GateRefusedError:
    """Return the error for undoing commits of other writers."""
    named = [f"{c.version}: {c.operation}{_author(c)}" for c in commits]
    return GateRefusedError(
        "TIDE-CKPT-040",
        "Others have written to the table after that moment, and their rows would be taken back, too. "
        "Spark's RESTORE would do so without a word.",
        facts={"table": path, "commits": named[:10], "count": len(named)},
        fix="choose a later batch; or keep the rows aside, and write them again afterwards",
        runbook="rewind",
    )


def version_is_gone(pipeline: str, path: str, version: int | None, reason: str) -> GateRefusedError:
    """Return the error for a version whose log or data files are gone."""
    return GateRefusedError(
        "TIDE-CKPT-072",
        "The table cannot be brought back to that version: a part of it is not there any more. "
        "Spark would fail while it restores, or while it reads afterwards.",
        facts={"table": path, "version": version, "reason": " ".join(reason.split())[:300]},
        fix="choose a newer batch, or keep the tables and read the source again: "
        f"tidemill checkpoint reset {pipeline} --from earliest",
        runbook="rewind",
    )


def _begins(commit: Commit, query_id: str | None) -> bool:
    return commit.entry is not None and commit.entry.query_id == query_id and commit.is_by_verb


def _author(commit: Commit) -> str:
    return "" if commit.entry is None else f" by {commit.entry.pipeline} ({commit.entry.mode})"


def _commit(table: DeltaTable, wanted: TableRestore, action: Literal["begin", "restore"]) -> None:
    """Write the commit.

    Raises:
        LostRaceError: If another writer has committed first.
        GateRefusedError: TIDE-CKPT-072, if files of the version are gone.
    """
    from deltalake import CommitProperties
    from deltalake.exceptions import CommitFailedError, DeltaError

    before = table.version()
    properties = CommitProperties(
        custom_metadata={"userMetadata": wanted.base.to_text()},
        # Otherwise delta-rs would retry after another writer's commit, whose files this commit does not know.
        max_commit_retries=0,
        app_transactions=_transactions(wanted),
    )
    try:
        if action == "restore":
            table.restore(wanted.version, commit_properties=properties)
        else:
            table.create_write_transaction(
                [], mode="append", schema=table.schema(), partition_by=[], commit_properties=properties
            )
    except CommitFailedError as error:
        if open_existing(wanted).version() == before:
            raise
        raise LostRaceError from error
    except DeltaError as error:
        raise version_is_gone(wanted.base.pipeline, wanted.path, wanted.version, str(error)) from error


def _transactions(wanted: TableRestore) -> list[Transaction]:
    from deltalake import Transaction

    closed = [Transaction(app_id, CLOSED) for app_id in wanted.closes]
    begun = wanted.base.transaction
    return closed if begun is None else [*closed, Transaction(*begun)]


def _needs_spark(path: str, features: str) -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CKPT-073",
        "Only Spark can restore this table.",
        facts={"table": path, "features": features},
        fix="use the command line, which starts Spark for such a table",
        runbook="rewind",
    )
