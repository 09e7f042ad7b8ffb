"""A table's position, proven by its log, and the commits that a rewind to a batch removes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.commits import TABLE, commit_of
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.proof import Side, Undo, UnprovenError, UntoldError, way_to, why_unproven
from tidemill.ledger.read import Commit
from tidemill.names import ASIDE_OUTPUTS, QUARANTINE_OUTPUT

FIRST = Side("orders", {"g0001": None})
# g0002 continues from batch 1 of g0001.
SECOND = Side("orders", {"g0001": 1, "g0002": None})


def entry(number: int | None, generation: str = "g0001", **changes: object) -> LedgerEntry:
    return commit_of(0).entry.model_copy(update={"batch_id": number, "generation": generation, **changes})


def begins(number: int, generation: str = "g0002", rows: int = 0) -> LedgerEntry:
    """Return the entry that an operation commits."""
    return entry(number, generation, mode="base", rows=rows)


def log(*commits: object, first: int = 0) -> list[Commit]:
    """Commits newest first, given oldest first: a batch, an operation, a RESTORE by its version, or both."""
    now = datetime.now(UTC)
    made = []
    for version, given in enumerate(commits, first):
        written, restored = given if isinstance(given, tuple) else (given, given)
        told = written if isinstance(written, LedgerEntry) else None
        target = restored if isinstance(restored, int) else None
        operation = "RESTORE" if target is not None else given if isinstance(given, str) else "WRITE"
        rows = 10 if told is None or told.rows is None else told.rows
        made.append(Commit(version, now, str(operation), rows, told, target))
    return made[::-1]


def way(commits: list[Commit], side: Side, batch_id: int, output: str = TABLE) -> Undo:
    return way_to(commits, side, batch_id, output)


def undone(found: Undo) -> list[int]:
    return [commit.version for commit in found.batches]


REWOUND = ("CREATE", entry(0), entry(1), entry(2), entry(3), (begins(1), 2))


@pytest.mark.parametrize(
    ("commits", "side", "batch_id", "proven"),
    [
        (("CREATE", entry(0), entry(1)), FIRST, 1, True),
        (("CREATE", entry(0), entry(1)), FIRST, 0, False),
        (("CREATE", entry(0), entry(1)), FIRST, 2, False),
        (("CREATE", entry(0), entry(1), "OPTIMIZE"), FIRST, 1, True),
        # Restored by hand, and back again.
        (("CREATE", entry(0), entry(1), 1), FIRST, 1, False),
        (("CREATE", entry(0), entry(1), 1, 2), FIRST, 1, True),
        # Restored by hand, and written on top.
        (("CREATE", entry(0), entry(1), 1, entry(2)), FIRST, 2, False),
        # Rewound: what was taken back is of no side any more.
        (REWOUND, SECOND, 1, True),
        (REWOUND, FIRST, 3, False),
        ((*REWOUND, entry(2, "g0002")), SECOND, 2, True),
        # A driver of the generation that was left, and one of before that.
        ((*REWOUND, entry(2)), SECOND, 1, False),
        ((*REWOUND, entry(2), entry(2, "g0002")), SECOND, 2, False),
        (("CREATE", entry(0), begins(0), entry(1)), Side("orders", {"g0001": 0, "g0002": None}), 0, False),
        # The table was replaced.
        (("CREATE", entry(0), "CREATE OR REPLACE TABLE AS SELECT"), FIRST, 0, False),
        (("CREATE", entry(0), "CREATE OR REPLACE TABLE AS SELECT", 1), FIRST, 0, True),
        # A fork, and state that was repartitioned.
        (("CREATE", begins(5, "g0001", rows=60)), FIRST, 5, True),
        (("CREATE", entry(0), begins(1)), SECOND, 1, True),
    ],
)
def test_a_log_proves_where_its_table_stands_or_does_not(
    commits: tuple[object, ...], side: Side, batch_id: int, proven: bool
) -> None:
    assert (why_unproven(log(*commits), side, batch_id, TABLE) == "") == proven


@pytest.mark.parametrize("aside", ASIDE_OUTPUTS)
def test_records_set_aside_need_no_batch_but_all_that_they_had(aside: str) -> None:
    commits = log("CREATE", entry(0), entry(3))
    assert why_unproven(commits, FIRST, 5, aside) == ""
    taken = log("CREATE", entry(0), entry(3), 1, entry(5))
    assert "batches 3-3 were written and taken back" in why_unproven(taken, FIRST, 5, aside)


def test_the_version_before_the_first_later_batch_is_brought_back() -> None:
    undo = way(log("CREATE", entry(0), entry(1), entry(2)), FIRST, 0)
    assert (undo.version, undo.to, undone(undo), undo.rows) == (3, 1, [3, 2], 20)


def test_a_table_without_later_batches_stays() -> None:
    undo = way(log("CREATE", entry(0), "OPTIMIZE"), FIRST, 0)
    assert (undo.version, undo.to, undo.batches) == (2, 2, ())


def test_the_quarantine_that_later_batches_began_goes_back_to_its_creation() -> None:
    assert way(log("CREATE", entry(3)), FIRST, 2, QUARANTINE_OUTPUT).to == 0
    with pytest.raises(UnprovenError):
        way(log("CREATE", entry(3)), FIRST, 2)
    with pytest.raises(UntoldError):
        way(log(entry(3)), FIRST, 2, QUARANTINE_OUTPUT)


def test_maintenance_goes_with_the_batches_and_is_told() -> None:
    commits = log("CREATE", entry(0), "OPTIMIZE", entry(1), "OPTIMIZE", "VACUUM START", entry(2))
    undo = way(commits, FIRST, 0)
    assert (undo.to, undo.maintenance, undo.foreign) == (2, 2, ())


@pytest.mark.parametrize(
    "stranger",
    [
        entry(9, pipeline="returns"),
        entry(None, "", mode="backfill"),
        # An entry from another history of the same pipeline, before a reset.
        entry(9, "g0007"),
        "WRITE",
        "DELETE",
        "SET TBLPROPERTIES",
    ],
)
def test_what_others_wrote_is_told_apart(stranger: LedgerEntry | str) -> None:
    commits = log("CREATE", entry(0), entry(1), stranger, entry(2))
    assert [commit.version for commit in way(commits, FIRST, 0).foreign] == [3]
    assert way(commits, FIRST, 1).foreign == ()


def test_a_second_rewind_goes_below_the_first() -> None:
    undo = way(log(*REWOUND, entry(2, "g0002")), SECOND, 0)
    assert (undo.to, undone(undo)) == (1, [6, 2])


def test_a_rewind_is_undone_from_the_older_generation() -> None:
    commits = log(*REWOUND, entry(2, "g0002"))
    undo = way_to(commits, FIRST, 3, TABLE, left=("g0001", "g0002"))
    assert (undo.to, undone(undo), undo.returns, undo.foreign) == (4, [6], (2, 3), ())
    assert way_to(commits, FIRST, 3, TABLE).foreign == (commits[0],)


def test_what_a_restore_by_hand_took_comes_back() -> None:
    undo = way(log("CREATE", entry(0), entry(1), entry(2), "OPTIMIZE", 1), FIRST, 2)
    assert (undo.version, undo.to, undo.returns) == (5, 4, (1, 2))


def test_below_a_hole_there_is_a_way_and_above_it_there_is_none() -> None:
    commits = log("CREATE", entry(0), entry(1), entry(2), 1, entry(3))
    assert way(commits, FIRST, 0).to == 4
    assert way(commits, FIRST, 2).to == 3
    with pytest.raises(UnprovenError, match="batches 1-2 were written and taken back"):
        way(commits, FIRST, 3)


def test_a_copy_cannot_be_taken_apart() -> None:
    commits = log("CREATE", begins(5, "g0001", rows=60), entry(6))
    assert way(commits, FIRST, 5).to == 1
    with pytest.raises(UntoldError):
        way(commits, FIRST, 3)


def test_a_log_that_begins_later_tells_as_long_as_a_batch_that_stays_is_in_it() -> None:
    assert way(log(entry(4), entry(5), first=30), FIRST, 4).to == 30
    with pytest.raises(UntoldError):
        way(log(entry(4), entry(5), first=30), FIRST, 3)


def test_a_restore_to_a_moment_hides_what_stands() -> None:
    by_time = Commit(9, datetime.now(UTC), "RESTORE", None, None, None)
    commits = [by_time, *log("CREATE", entry(0), entry(1))]
    assert "restored a moment" in why_unproven(commits, FIRST, 1, TABLE)
    with pytest.raises(UntoldError):
        way(commits, FIRST, 0)


def test_rows_are_unknown_if_one_commit_does_not_tell() -> None:
    silent = Commit(9, datetime.now(UTC), "MERGE", None, entry(2))
    assert way([silent, *log("CREATE", entry(0), entry(1))], FIRST, 0).rows is None
