"""A table when its pipeline changes the generation: brought back, closed to the old side, begun anew.

A RESTORE takes back rows and keeps transaction versions. A driver that was fenced off while it wrote would
still commit its batch afterwards: so its transaction id is closed, with the restore or before it, and a
driver that meets the closed id ends as fenced off. The same commit is the new generation's first: its ledger
entry, of mode `base`, says after which batch the table stands now.
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

# Transaction version of an id that nobody may use any more: above every batch number, and a Java long.
CLOSED = 2**62

# Features that delta-rs restores as Spark does. With others it refuses to write, or compares files by name
# alone although their deletion vectors differ.
_RESTORABLE_FEATURES = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "generatedColumns", "timestampNtz", "v2Checkpoint"}
)


@dataclass(frozen=True)
class TableRestore:
    """One table to hand over to a new generation.

    Args:
        path: Of the table.
        version: To bring back.
        known: Newest version that the plan knew; a commit of someone else after it is not taken back.
        base: The new generation's first entry; its query id is this request's own.
        closes: Transaction ids that nobody may use any more.
    """

    path: str
    version: int
    known: int
    base: LedgerEntry
    closes: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What a commit beside the one with the entry says of itself, in `userMetadata`."""
        return json.dumps({"v": 1, RESTORED_BY: self.base.query_id})

    @property
    def note_of_regret(self) -> str:
        """What the commit says that takes a RESTORE back."""
        return json.dumps({"v": 1, RESTORED_BY: f"{self.base.query_id} taken back"})

    def to_text(self) -> str:
        """As an argument of the process that does it where only Spark can."""
        return json.dumps({**asdict(self), "base": self.base.to_text()})

    @staticmethod
    def from_text(text: str) -> TableRestore:
        """What `to_text` wrote."""
        document = json.loads(text)
        base = LedgerEntry.model_validate_json(document["base"])
        return TableRestore(**{**document, "base": base, "closes": tuple(document["closes"])})


# Hands over one table; a repeated call changes nothing.
RestoreTable = Callable[[TableRestore], None]


def restore_through_delta_rs(wanted: TableRestore) -> None:
    """Hand over a table, once for each request, in one commit.

    Raises:
        GateRefusedError: TIDE-CKPT-040 if someone else has written since, TIDE-CKPT-072 if the version is
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
    """What was committed after the plan, newest first."""
    return list(takewhile(lambda commit: commit.version > wanted.known, History(wanted.path, table)))


def has_begun(path: str, query_id: str | None, known: int) -> bool:
    """Return True if a verb's first commit of a generation is in the table, after a known version."""
    commits = takewhile(lambda commit: commit.version > known, History(path, open_table(path)))
    return any(_begins(commit, query_id) for commit in commits)


def next_action(since: Sequence[Commit], wanted: TableRestore) -> Literal["done", "begin", "restore"]:
    """What is still to do, by what was committed after the plan.

    Where nothing is to be taken back the generation begins without a RESTORE, so that others may write on.

    Raises:
        GateRefusedError: TIDE-CKPT-040, if a commit of someone else would be taken back.
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
    """Why delta-rs cannot restore the table; empty if it can."""
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


def version_is_gone(pipeline: str, path: str, version: int | None, reason: str) -> GateRefusedError:
    """The refusal of a version whose log or data files are not there any more."""
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
    """Do it in one commit.

    Raises:
        LostRaceError: If someone else has committed meanwhile.
        GateRefusedError: TIDE-CKPT-072, if files of the version are gone.
    """
    from deltalake import CommitProperties
    from deltalake.exceptions import CommitFailedError, DeltaError

    before = table.version()
    properties = CommitProperties(
        custom_metadata={"userMetadata": wanted.base.to_text()},
        # delta-rs would go on after a commit that came between, whose files this one does not know.
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
