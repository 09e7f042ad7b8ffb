"""Prove from a table's log which batches it has, and find the version of the table after a given batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidemill.ledger.read import Commit
from tidemill.ledger.standing import standing_commits
from tidemill.names import ASIDE_OUTPUTS


class UntoldError(LookupError):
    """The log no longer shows the table's state after the batch."""


class UnprovenError(LookupError):
    """The log shows that the table never had exactly the batches up to this one."""


@dataclass(frozen=True)
class Side:
    """The batches that count: those of one pipeline that lead to a generation.

    Args:
        pipeline: Name of the pipeline.
        limits: The last batch of each generation that leads there; None if all of its batches do.
    """

    pipeline: str
    limits: Mapping[str, int | None]

    def batch_of(self, commit: Commit) -> int | None:
        """Return the number of the batch that a commit completed; None if it is not of this side."""
        entry = commit.entry
        if entry is None or entry.pipeline != self.pipeline or entry.generation is None:
            return None
        if entry.generation not in self.limits:
            return None
        limit, number = self.limits[entry.generation], entry.batch_id
        return None if number is None or (limit is not None and number > limit) else number

    def up_to(self, batch_id: int) -> dict[str, int]:
        """Return the limits of this side, cut off after a batch."""
        limits = {
            name: batch_id if last is None else min(last, batch_id) for name, last in self.limits.items()
        }
        return {name: last for name, last in limits.items() if last >= 0}


@dataclass(frozen=True)
class Undo:
    """The effect of restoring one table.

    Args:
        version: Current newest version.
        to: Version to restore; the newest one if nothing is to be restored.
        batches: Undone commits of the pipeline, newest first.
        returns: Batches that were undone before and that the restore brings back.
        maintenance: Number of undone commits that changed no row.
        foreign: Undone commits of other writers or of a backfill.
    """

    version: int
    to: int
    batches: tuple[Commit, ...] = ()
    returns: tuple[int, ...] = ()
    maintenance: int = 0
    foreign: tuple[Commit, ...] = ()

    @property
    def rows(self) -> int | None:
        """Return the number of undone rows; None if a commit does not record it."""
        counts = [commit.rows for commit in self.batches]
        return None if None in counts else sum(count for count in counts if count is not None)


def why_unproven(newest_first: Sequence[Commit], side: Side, batch_id: int, output: str) -> str:
    """Return why a log does not prove that its table has exactly the batches up to one; empty if it does.

    The proof needs three things: every logged batch of the side up to this one is in the table, no later
    batch of the pipeline is, and the newest batch is this one. A table of rejected or late records has only
    batches with such records, so none of its batches may have been undone.

    Args:
        newest_first: All commits in the log up to the version in question.
        side: Generations whose batches count.
        batch_id: The batch to prove.
        output: Name of the table in ledger entries.
    """
    try:
        standing = _told(newest_first)
    except UntoldError as error:
        return str(error)
    there = {commit.version for commit in standing}
    logged = {
        c.version: n for c in newest_first if (n := side.batch_of(c)) is not None and not c.changes_no_row
    }
    holes = sorted({n for version, n in logged.items() if n <= batch_id and version not in there})
    if holes:
        return f"batches {holes[0]}-{holes[-1]} were written and taken back"
    if (late := _late(newest_first, there, side)) is not None:
        return f"version {late.version} was written by a generation that had been left"
    newest = max((n for c in standing if (n := side.batch_of(c)) is not None), default=None)
    if newest == batch_id or (output in ASIDE_OUTPUTS and (newest is None or newest < batch_id)):
        return ""
    return f"its newest batch is {'none' if newest is None else newest}, not {batch_id}"


def way_to(
    newest_first: Sequence[Commit], side: Side, batch_id: int, output: str, left: Collection[str] = ()
) -> Undo:
    """Find the way from the current table to the table as it was after a batch.

    Normally the commits after the batch are removed. If batches were undone since (by hand, or by a rewind
    that is itself to be undone), the result is the newest version that had exactly these batches.

    Args:
        newest_first: All commits in the log; at least one.
        side: Generations whose batches count.
        batch_id: Last batch that stays.
        output: Name of the table in ledger entries.
        left: Further generations whose batches may be undone.

    Raises:
        UntoldError: If the log does not reach back far enough.
        UnprovenError: If the table never had exactly these batches.
    """
    own = {*side.limits, *left}
    later = [c.version for c in _told(newest_first) if _is_own(c, side, own) and _goes(c, side, batch_id)]
    newest = newest_first[0].version
    ways = [min(later) - 1 if later else newest, _before_it_was_left(newest_first, side, batch_id)]
    reasons = []
    for to in ways:
        up_to = [commit for commit in newest_first if to is not None and commit.version <= to]
        if not up_to:
            continue
        reason = why_unproven(up_to, side, batch_id, output)
        if not reason:
            return _undo(newest_first, up_to, side, own)
        reasons.append(reason)
    oldest = newest_first[-1]
    if not reasons or (oldest.version > 0 and not any(side.batch_of(c) == batch_id for c in newest_first)):
        raise UntoldError(f"its log begins after that batch, with version {oldest.version}")
    if any(_goes(c, side, batch_id) and c.is_by_verb for c in newest_first if _is_own(c, side, own)):
        raise UntoldError(f"its rows up to a batch after {batch_id} came in one copy")
    raise UnprovenError(reasons[0])


def _told(newest_first: Iterable[Commit]) -> list[Commit]:
    """Return the commits that count.

    Raises:
        UntoldError: If one restored to a timestamp, because Delta does not record its version.
    """
    standing = list(standing_commits(newest_first))
    unnamed = [c.version for c in standing if c.operation == "RESTORE" and c.restored_to is None]
    if unnamed:
        raise UntoldError(f"version {unnamed[0]} restored a moment without naming a version")
    return standing


def _is_own(commit: Commit, side: Side, generations: Collection[str]) -> bool:
    """Return True if the pipeline's driver wrote rows with a commit; backfills do not count."""
    entry = commit.entry
    mine = entry is not None and entry.pipeline == side.pipeline and entry.generation in generations
    return mine and not commit.changes_no_row


def _goes(commit: Commit, side: Side, batch_id: int) -> bool:
    number = side.batch_of(commit)
    return number is None or number > batch_id


def _late(newest_first: Sequence[Commit], there: Collection[int], side: Side) -> Commit | None:
    """Return a commit that counts, although an operation had left its generation before."""
    live: str | None = None
    for commit in reversed(newest_first):
        entry = commit.entry
        if entry is None or entry.pipeline != side.pipeline or entry.mode == "backfill":
            continue
        if entry.mode == "base":
            live = entry.generation
        elif live not in (None, entry.generation) and commit.version in there:
            return commit
    return None


def _before_it_was_left(newest_first: Sequence[Commit], side: Side, batch_id: int) -> int | None:
    """Return the newest version with a batch's newest commit, before the next RESTORE or batch."""
    numbers = {c.version: n for c in newest_first if (n := side.batch_of(c)) is not None and n <= batch_id}
    if not numbers:
        return None
    found = max(numbers, key=lambda version: (numbers[version], version))
    for commit in reversed(newest_first):
        entry = commit.entry
        further = entry is not None and entry.pipeline == side.pipeline and entry.mode != "backfill"
        if commit.version > found and (commit.operation == "RESTORE" or further):
            return commit.version - 1
    return newest_first[0].version


def _undo(newest_first: Sequence[Commit], up_to: Sequence[Commit], side: Side, own: Collection[str]) -> Undo:
    stands, stays = _told(newest_first), {commit.version for commit in _told(up_to)}
    goes = [commit for commit in stands if commit.version not in stays]
    batches = [commit for commit in goes if _is_own(commit, side, own)]
    harmless = [commit for commit in goes if commit.changes_no_row]
    now = {commit.version for commit in stands}
    returns = {
        n
        for c in up_to
        if c.version in stays - now and not c.changes_no_row and (n := side.batch_of(c)) is not None
    }
    return Undo(
        newest_first[0].version,
        up_to[0].version,
        tuple(batches),
        tuple(sorted(returns)),
        sum(not commit.is_by_verb for commit in harmless),
        tuple(commit for commit in goes if commit not in batches and commit not in harmless),
    )
