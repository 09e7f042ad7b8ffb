"""Find the commits that still count.

A RESTORE undoes the rows of the commits after its target, and a REPLACE those of all commits before it. Delta
keeps their transaction versions, so the transaction version alone is too high for such a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemill.ledger.read import Commit


def standing_commits(newest_first: Iterable[Commit]) -> Iterator[Commit]:
    """Yield the commits, newest first, without those whose rows a later RESTORE or REPLACE removed.

    After a RESTORE to a timestamp, which records no version, no older commit is known to count.
    """
    newest_standing: int | None = None
    for commit in newest_first:
        if newest_standing is not None and commit.version > newest_standing:
            continue
        yield commit
        if commit.replaces:
            return
        if commit.operation == "RESTORE":
            newest_standing = -1 if commit.restored_to is None else commit.restored_to
