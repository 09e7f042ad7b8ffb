"""Commits that a RESTORE took back do not count."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidemill.ledger.read import Commit
from tidemill.ledger.standing import standing_commits


def history(*operations: str | int | None) -> list[Commit]:
    """Commits newest first, given oldest first: `WRITE`, or the version that a RESTORE brought back."""
    commits = []
    for version, given in enumerate(operations):
        operation, target = (given, None) if isinstance(given, str) else ("RESTORE", given)
        commits.append(Commit(version, datetime.now(UTC), operation, None, None, target))
    return commits[::-1]


@pytest.mark.parametrize(
    ("commits", "standing"),
    [
        (history(), []),
        (history("CREATE", "WRITE", "WRITE"), [2, 1, 0]),
        (history("CREATE", "WRITE", "WRITE", 1), [3, 1, 0]),
        (history("CREATE", "WRITE", "WRITE", 1, "WRITE"), [4, 3, 1, 0]),
        (history("CREATE", "WRITE", 0), [2, 0]),
        # Restored, written, and restored to before the first restore.
        (history("CREATE", "WRITE", "WRITE", 1, "WRITE", 2), [5, 2, 1, 0]),
        # Restored to a version that is a restore itself.
        (history("CREATE", "WRITE", "WRITE", 1, "WRITE", 3), [5, 3, 1, 0]),
        # Restored to a timestamp, so no older commit is known to count.
        (history("CREATE", "WRITE", None), [2]),
        (history("CREATE", "WRITE", None, "WRITE"), [3, 2]),
    ],
)
def test_commits_between_a_restore_and_its_target_do_not_stand(
    commits: list[Commit], standing: list[int]
) -> None:
    assert [commit.version for commit in standing_commits(commits)] == standing
