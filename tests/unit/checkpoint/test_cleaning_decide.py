"""Read files that may be cleaned: each rule alone, and all together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tidemill.checkpoint.cleaning.decide import (
    CHANGED,
    NEWEST,
    OTHER_NAME,
    YOUNG,
    Candidate,
    FilesDecision,
    decide_files,
)
from tidemill.checkpoint.reading.source_logs import ReadFile
from tidemill.storage.store import StoredFile

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BEFORE = NOW - timedelta(days=1)
SECOND = timedelta(seconds=1)


def candidate(number: int = 0, modified: datetime = BEFORE) -> Candidate:
    name = f"{number}.json"
    return Candidate(
        name, ReadFile(f"file:///in/{name}", modified, number), StoredFile(f"/in/{name}", 5, modified)
    )


def changed(by: timedelta) -> Candidate:
    file = candidate()
    return replace(file, stored=StoredFile("/in/0.json", 5, BEFORE + by))


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (candidate(), None),
        (candidate(modified=BEFORE - SECOND), None),
        (candidate(modified=BEFORE + SECOND), YOUNG),
        (changed(SECOND), CHANGED),
        # Stores count whole seconds, Spark's log milliseconds.
        (changed(timedelta(milliseconds=900)), None),
        (changed(-SECOND), CHANGED),
        (replace(candidate(), archived_size=5), None),
        (replace(candidate(), archived_size=6), CHANGED),
        (replace(candidate(), has_one_name=False), OTHER_NAME),
        (replace(candidate(), needed_by=("g0001", "backup b1")), "needed by g0001, backup b1"),
    ],
)
def test_a_file_goes_only_if_nothing_speaks_against_it(file: Candidate, reason: str | None) -> None:
    found = decide_files([file], BEFORE, others=1)
    assert [goes.name for goes in found.goes] == ([] if reason else ["0.json"])
    assert found.stays == ({reason: 1} if reason else {})


def test_a_file_that_is_gone_already_is_no_matter() -> None:
    assert decide_files([replace(candidate(), stored=None)], BEFORE, others=0) == FilesDecision()


def test_the_newest_file_stays_where_no_other_does() -> None:
    files = [candidate(n, BEFORE - timedelta(minutes=n)) for n in range(3)]
    found = decide_files(files, BEFORE, others=0)
    assert ([f.name for f in found.goes], found.stays) == (["1.json", "2.json"], {NEWEST: 1})
    young = candidate(3, NOW)
    assert len(decide_files([*files, young], BEFORE, others=0).goes) == 3
    assert len(decide_files(files, BEFORE, others=1).goes) == 3


def test_what_was_read_first_goes_first_and_the_rest_with_later_runs() -> None:
    files = [candidate(n) for n in (4, 1, 3, 2)]
    found = decide_files(files, BEFORE, others=1, limit=2)
    assert ([f.name for f in found.goes], found.more, found.size) == (["1.json", "2.json"], 2, 10)
