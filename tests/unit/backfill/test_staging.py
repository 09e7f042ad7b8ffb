"""What is published: once, of the attempt that a person has looked at, with all that its chunks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidemill.backfill.progress import Progress
from tidemill.backfill.staging import Publication, attempt_of, publication, published_entry
from tidemill.ledger.entry import Code, ExpectationCounts, LedgerEntry
from tidemill.ledger.read import Commit

NOW = datetime(2026, 3, 1, 10, 15, tzinfo=UTC)
ATTEMPT = "20260301T101500000000Z"


def entry(**known: Any) -> LedgerEntry:
    code = Code(tidemill="1", digest="d", spec="s")
    return LedgerEntry(pipeline="p", output="silver/o", mode="backfill", run_id="r", code=code, **known)


def commit(version: int, published: str | None = None, **known: Any) -> Commit:
    told = entry(published=published) if published else None
    return Commit(version, NOW, known.pop("operation", "WRITE"), 1, told, **known)


def test_attempts_have_names_in_the_order_of_time() -> None:
    first, second = (Progress(begun_at=NOW + timedelta(microseconds=more)) for more in (0, 1))
    assert attempt_of(first) == ATTEMPT < attempt_of(second)


@pytest.mark.parametrize(
    ("commits", "is_known", "wanted"),
    [
        ([commit(4)], False, "to do"),
        ([commit(6), commit(5, ATTEMPT), commit(4)], True, "done"),
        # Delta may have forgotten the transaction.
        ([commit(5, ATTEMPT), commit(4)], False, "done"),
        ([commit(5, "20260101T000000000000Z")], False, "to do"),
        ([commit(6, operation="RESTORE", restored_to=4), commit(5, ATTEMPT), commit(4)], True, "taken back"),
        ([commit(6, operation="RESTORE", restored_to=5), commit(5, ATTEMPT), commit(4)], True, "done"),
    ],
)
def test_a_commit_counts_as_published_while_it_stands(
    commits: list[Commit], is_known: bool, wanted: Publication
) -> None:
    assert publication(commits, ATTEMPT, 4, is_known)[0] == wanted


def test_the_one_commit_says_what_all_chunks_say() -> None:
    one = ExpectationCounts(checked=10, dropped=1, quarantined=2, violations={"a": 3})
    other = ExpectationCounts(checked=5, violations={"a": 1, "b": 0})
    staged = [
        entry(chunk=0, poison_records=("t-0-7",), expectations=one, source_schemas={"source": "v2"}),
        entry(chunk=1, poison_records=("t-0-3",), expectations=other),
    ]
    made = published_entry(entry(plan="1f2e"), staged, ATTEMPT)
    assert (made.published, made.chunk, made.plan) == (ATTEMPT, None, "1f2e")
    assert (made.poison_records, made.source_schemas) == (("t-0-3", "t-0-7"), {"source": "v2"})
    assert made.expectations == ExpectationCounts(
        checked=15, dropped=1, quarantined=2, violations={"a": 4, "b": 0}
    )
    assert published_entry(entry(), [], ATTEMPT).expectations is None
