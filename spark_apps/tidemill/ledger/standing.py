"""Which commits still count.

A RESTORE takes back the rows of the commits after its target, and a REPLACE those of all before it. Delta
keeps their transaction versions all the same, so a transaction version alone says too much of such a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemill.ledger.read import Commit


def standing_commits(newest_first: Iterable[Commit]) -> Iterator[Commit]:
    """The commits, newest first, without those whose rows a later RESTORE or REPLACE took.

    After a RESTORE to a moment, which names no version, nothing older is known to stand.
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
