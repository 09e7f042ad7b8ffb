"""What of a table a rewind takes back: the commits after a batch, and those of others among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.ledger.read import Commit
from tidemill.ledger.standing import standing_commits
from tidemill.ledger.table_restore import changes_no_row


class UntoldError(LookupError):
    """The log does not tell which commits would be taken back."""


@dataclass(frozen=True)
class Side:
    """Who wrote what counts: one pipeline, in the generations that lead to the live one.

    Args:
        pipeline: Its name.
        generations: The live one, its parent if it shares batches with it, and so on.
    """

    pipeline: str
    generations: frozenset[str]

    def batch_of(self, commit: Commit) -> int | None:
        """Number of the batch that a commit is of; None if it is somebody else's, or no batch."""
        entry = commit.entry
        if entry is None or entry.pipeline != self.pipeline or entry.generation not in self.generations:
            return None
        return entry.batch_id


@dataclass(frozen=True)
class Undo:
    """What bringing one table back means.

    Args:
        version: Newest version now.
        to: Version to bring back; the newest one if nothing is undone.
        batches: Commits of the pipeline that are taken back, newest first.
        maintenance: Commits taken back that changed no row.
        foreign: Commits of somebody else, or of a backfill, that would be taken back.
    """

    version: int
    to: int
    batches: tuple[Commit, ...] = ()
    maintenance: tuple[Commit, ...] = ()
    foreign: tuple[Commit, ...] = ()

    @property
    def rows(self) -> int | None:
        """Rows taken back; None if a commit does not tell."""
        counts = [commit.rows for commit in self.batches]
        return None if None in counts else sum(count for count in counts if count is not None)


def undo_after(newest_first: Sequence[Commit], side: Side, batch_id: int) -> Undo:
    """What leads from a table as it is to the table as it was after a batch.

    Args:
        newest_first: All commits that the log still has; at least one.
        side: Whose batches.
        batch_id: Last one that stays.

    Raises:
        UntoldError: If the log does not tell, or the table did not exist yet.
    """
    newest = newest_first[0].version
    standing = _told(newest_first)
    numbers = {commit.version: side.batch_of(commit) for commit in standing}
    later = [version for version, number in numbers.items() if number is not None and number > batch_id]
    kept = [version for version, number in numbers.items() if number is not None and number <= batch_id]
    oldest = newest_first[-1].version
    if not kept and oldest > 0:
        raise UntoldError(f"the log begins with version {oldest}")
    if not later:
        return Undo(newest, newest)
    first = min(later)
    if first == 0:
        raise UntoldError("the table began with a later batch")
    return _undo(newest, first, [c for c in standing if c.version >= first], set(later))


def newest_batch(newest_first: Iterable[Commit], side: Side) -> int | None:
    """Newest batch of a side whose rows are in the table; None if there is none."""
    numbers = (side.batch_of(commit) for commit in standing_commits(newest_first))
    return next((number for number in numbers if number is not None), None)


def _undo(newest: int, first: int, taken_back: Sequence[Commit], later: set[int]) -> Undo:
    batches = tuple(commit for commit in taken_back if commit.version in later)
    others = [commit for commit in taken_back if commit.version not in later]
    harmless = tuple(commit for commit in others if changes_no_row(commit))
    foreign = tuple(commit for commit in others if not changes_no_row(commit))
    return Undo(newest, first - 1, batches, harmless, foreign)


def _told(newest_first: Sequence[Commit]) -> list[Commit]:
    """The commits that stand.

    Raises:
        UntoldError: If one restored a moment: which version that was, Delta does not say.
    """
    standing = list(standing_commits(newest_first))
    unnamed = [c.version for c in standing if c.operation == "RESTORE" and c.restored_to is None]
    if unnamed:
        raise UntoldError(f"version {unnamed[0]} restored a moment without naming a version")
    return standing
