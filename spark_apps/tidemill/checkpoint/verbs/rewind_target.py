"""Where a rewind leads: a batch, a moment or a table version, as the batch that is the last one to stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.errors import UsageError
from tidemill.ledger.read import Commit
from tidemill.ledger.standing import standing_commits
from tidemill.ledger.undone import Side


@dataclass(frozen=True)
class Target:
    """One of three.

    Args:
        batch_id: Last batch that stays.
        moment: What was committed after it goes.
        version: Of the first table; what was committed after it goes.
    """

    batch_id: int | None = None
    moment: datetime | None = None
    version: int | None = None


def parse_target(text: str) -> Target:
    """Read `118`, `v42` or an ISO 8601 moment; one without a zone is in UTC.

    Raises:
        UsageError: TIDE-CKPT-074.
    """
    if text.isascii() and text.isdecimal():
        return Target(batch_id=int(text))
    if text.startswith("v") and text[1:].isascii() and text[1:].isdecimal():
        return Target(version=int(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            "TIDE-CKPT-074",
            "This is no place to go back to.",
            facts={"given": ascii(text[:80])},
            fix="name a batch (118), a table version (v42) or a moment (2026-11-20T14:00:00Z)",
        ) from error
    return Target(moment=moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def last_batch_to_stay(
    target: Target, tables: Mapping[str, Sequence[Commit]], side: Side, last_committed: int
) -> int:
    """The batch that a target means; -1 if nothing would stay.

    Args:
        target: What was asked for.
        tables: Commits of each table, newest first; the first table is the one whose version is meant.
        side: Whose batches.
        last_committed: Newest batch in `commits/`.
    """
    if target.batch_id is not None:
        return target.batch_id
    if target.moment is not None:
        moment = target.moment
        after = [c for commits in tables.values() for c in _batches(commits, side) if c.committed_at > moment]
    else:
        version = target.version or 0
        first = next(iter(tables.values()), ())
        after = [commit for commit in _batches(first, side) if commit.version > version]
    numbers = [number for commit in after if (number := side.batch_of(commit)) is not None]
    return min([last_committed, *(number - 1 for number in numbers)])


def _batches(newest_first: Sequence[Commit], side: Side) -> list[Commit]:
    return [c for c in standing_commits(newest_first) if side.batch_of(c) is not None]
