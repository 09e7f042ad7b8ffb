"""Publishing: one commit publishes the attempt that the user has reviewed, with the facts of all chunks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from tidemill.backfill.progress import Progress
from tidemill.backfill.staging import (
    Publication,
    attempt_of,
    drop_unfinished,
    publication,
    published_entry,
    version_of_finished,
)
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


def test_a_chunk_that_was_computed_twice_counts_once_as_it_was_at_last() -> None:
    first = entry(chunk=1, poison_records=("t-0-7",), expectations=ExpectationCounts(checked=10, dropped=1))
    last = entry(chunk=1, expectations=ExpectationCounts(checked=10))
    made = published_entry(entry(), [last, first], ATTEMPT)
    assert made.poison_records is None
    assert made.expectations == ExpectationCounts(checked=10)


def restored(version: int, target: int) -> Commit:
    return commit(version, operation="RESTORE", restored_to=target)


def staged_commit(version: int, chunk: int) -> Commit:
    return Commit(version, NOW, "MERGE", 1, entry(chunk=chunk))


CREATED = Commit(0, NOW, "CREATE TABLE", None, None)


@pytest.mark.parametrize(
    ("commits", "wanted"),
    [
        ([CREATED], None),
        ([staged_commit(1, 0), CREATED], None),
        ([staged_commit(1, 1), CREATED], 0),
        ([staged_commit(3, 1), staged_commit(2, 1), staged_commit(1, 0), CREATED], 1),
        # Taken back once, and killed again; killed right after.
        ([staged_commit(4, 1), restored(3, 1), staged_commit(2, 1), staged_commit(1, 0), CREATED], 1),
        ([restored(3, 1), staged_commit(2, 1), staged_commit(1, 0), CREATED], None),
    ],
)
def test_a_staged_table_goes_back_to_what_finished_chunks_have_left(
    commits: list[Commit], wanted: int | None
) -> None:
    assert version_of_finished(commits, {0}) == wanted


def test_what_a_killed_chunk_has_set_aside_is_gone_before_its_next_attempt(tmp_path: Path) -> None:
    """Without this, a rejected record that is accepted now would be published into both tables."""
    path = str(tmp_path / "quarantine/orders")
    DeltaTable.create(path, pa.schema([("offset", pa.int64())]))
    set_aside(path, 0, 7)
    for _ in range(3):
        set_aside(path, 1, 12)
        drop_unfinished(path, {0})
        assert staged_offsets(path) == [7]
    set_aside(path, 1, 15)
    drop_unfinished(path, {0, 1})
    assert staged_offsets(path) == [7, 15]


def test_nothing_is_taken_back_where_nothing_was_staged(tmp_path: Path) -> None:
    drop_unfinished(str(tmp_path / "quarantine/orders"), {0})
    assert list(tmp_path.iterdir()) == []


def set_aside(path: str, chunk: int, offset: int) -> None:
    told = CommitProperties(custom_metadata={"userMetadata": entry(chunk=chunk).to_text()})
    write_deltalake(path, pa.table({"offset": [offset]}), mode="append", commit_properties=told)


def staged_offsets(path: str) -> list[int]:
    files = DeltaTable(path).file_uris()
    return sorted(row for file in files for row in pq.read_table(file).column("offset").to_pylist())
