"""Which commits going back to a batch takes with it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.support.commits import commit_of
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit
from tidemill.ledger.undone import Side, UntoldError, newest_batch, undo_after

SIDE = Side("orders", frozenset({"g0001", "g0002"}))
CLOSING = json.dumps({"v": 1, "restored_by": "rewind-1"})


def entry(number: int, **changes: object) -> LedgerEntry:
    return commit_of(number).entry.model_copy(update=changes)


def log(*commits: LedgerEntry | str | int, first: int = 0) -> list[Commit]:
    """Commits newest first, given oldest first: a batch, an operation, or the version of a RESTORE."""
    now = datetime.now(UTC)
    made = []
    for version, given in enumerate(commits, first):
        if isinstance(given, LedgerEntry):
            made.append(Commit(version, now, "WRITE", 10, given))
        elif isinstance(given, int):
            made.append(Commit(version, now, "RESTORE", None, None, given))
        else:
            note = CLOSING if given == "CLOSE" else None
            made.append(Commit(version, now, given.replace("CLOSE", "WRITE"), None, None, None, note))
    return made[::-1]


def versions(commits: tuple[Commit, ...]) -> list[int]:
    return [commit.version for commit in commits]


def test_the_version_before_the_first_later_batch_is_brought_back() -> None:
    undo = undo_after(log("CREATE", entry(0), entry(1), entry(2)), SIDE, 0)
    assert (undo.version, undo.to, versions(undo.batches), undo.rows) == (3, 1, [3, 2], 20)


def test_a_table_without_later_batches_stays() -> None:
    undo = undo_after(log("CREATE", entry(0), "OPTIMIZE"), SIDE, 0)
    assert (undo.version, undo.to, undo.batches) == (2, 2, ())


def test_a_table_that_later_batches_began_goes_back_to_its_creation() -> None:
    assert undo_after(log("CREATE", entry(3)), SIDE, 2).to == 0


def test_maintenance_goes_with_the_batches_and_is_told() -> None:
    commits = log("CREATE", entry(0), "OPTIMIZE", entry(1), "OPTIMIZE", "VACUUM START", "CLOSE", entry(2))
    undo = undo_after(commits, SIDE, 0)
    assert (undo.to, versions(undo.maintenance), undo.foreign) == (2, [6, 5, 4], ())


@pytest.mark.parametrize(
    "stranger",
    [
        entry(9, pipeline="returns"),
        entry(9, mode="backfill", batch_id=None, generation=None),
        # Of another history of the same pipeline, before a reset.
        entry(9, generation="g0007"),
        "WRITE",
        "DELETE",
        "SET TBLPROPERTIES",
    ],
)
def test_what_others_wrote_is_told_apart(stranger: LedgerEntry | str) -> None:
    commits = log("CREATE", entry(0), entry(1), stranger, entry(2))
    assert versions(undo_after(commits, SIDE, 0).foreign) == [3]
    assert undo_after(commits, SIDE, 1).foreign == ()


def test_batches_of_the_parent_generation_count() -> None:
    commits = log("CREATE", entry(0), entry(1), entry(2), 1, entry(1, generation="g0002"))
    assert versions(undo_after(commits, SIDE, 0).batches) == [5]
    assert undo_after(commits, SIDE, 0).to == 4
    assert newest_batch(commits, SIDE) == 1
    assert newest_batch(commits[1:], SIDE) == 0


def test_a_log_that_begins_later_tells_as_long_as_a_batch_that_stays_is_in_it() -> None:
    assert undo_after(log(entry(4), entry(5), first=30), SIDE, 4).to == 30
    with pytest.raises(UntoldError):
        undo_after(log(entry(4), entry(5), first=30), SIDE, 3)


def test_a_restore_to_a_moment_hides_what_stands() -> None:
    by_time = Commit(9, datetime.now(UTC), "RESTORE", None, None, None)
    with pytest.raises(UntoldError):
        undo_after([by_time, *log("CREATE", entry(0), entry(1))], SIDE, 0)


def test_rows_are_unknown_if_one_commit_does_not_tell() -> None:
    commits = log("CREATE", entry(0), entry(1))
    silent = Commit(9, datetime.now(UTC), "MERGE", None, entry(2))
    assert undo_after([silent, *commits], SIDE, 0).rows is None
