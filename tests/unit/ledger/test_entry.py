"""The ledger entry: what goes into a commit comes out again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commits import CODE, commit_of
from tidemill.ledger.entry import LedgerEntry, OffsetRange, Shape, parse_entry
from tidemill.ledger.read import (
    History,
    commits_of,
    open_table,
    read_commits,
    read_ledger,
    transaction_version,
)
from tidemill.sinks.table_log import TableLog

COLUMNS = pa.schema([("id", pa.int64())])

# Hypothesis wants its bounds without a zone.
moments = st.datetimes(
    min_value=datetime(1970, 1, 1),  # noqa: DTZ001
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
offsets = (
    st.none()
    | st.integers(0, 2**63 - 1)
    | st.dictionaries(st.text(), st.dictionaries(st.text(), st.integers()))
)
entries = st.builds(
    LedgerEntry,
    pipeline=st.text(min_size=1),
    output=st.text(min_size=1),
    mode=st.sampled_from(["stream", "incremental", "backfill"]),
    run_id=st.text(),
    generation=st.none() | st.text(),
    query_id=st.none() | st.text(),
    epoch=st.none() | st.integers(0),
    batch_id=st.none() | st.integers(0),
    sources=st.dictionaries(st.text(), st.builds(OffsetRange, start=offsets, end=offsets)),
    rows=st.none() | st.integers(0),
    watermark=st.none() | moments,
    event_time=st.none() | st.fixed_dictionaries({"min": moments, "max": moments}),
    code=st.just(CODE),
)


def test_what_an_entry_did_not_know_is_not_known_to_one_that_carries_its_shape_over() -> None:
    old = Shape.model_validate({"source": "kafka", "output_mode": "append", "shuffle_partitions": 2})
    entry = LedgerEntry(pipeline="p", output="t", mode="base", run_id="", code=CODE, shape=old)
    read = parse_entry(entry.to_text())
    assert read is not None
    assert read.shape is not None
    assert read.shape.model_fields_set == {"source", "output_mode", "shuffle_partitions"}


@given(entry=entries)
def test_an_entry_is_read_as_it_was_written(entry: LedgerEntry) -> None:
    assert parse_entry(entry.to_text()) == entry


def test_what_is_unknown_is_left_out() -> None:
    text = commit_of(3).entry.to_text()
    assert "rows" not in text
    assert "watermark" not in text
    assert '"batch_id":3' in text


def test_a_watermark_keeps_its_moment_whatever_its_zone() -> None:
    local = datetime(2024, 3, 31, 3, 0, tzinfo=timezone(timedelta(hours=2)))
    entry = commit_of(0).entry.model_copy(update={"watermark": local})
    read = parse_entry(entry.to_text())
    assert read is not None
    assert read.watermark == datetime(2024, 3, 31, 1, 0, tzinfo=UTC)


def test_an_entry_of_a_later_version_with_more_fields_is_read() -> None:
    text = commit_of(0).entry.to_text().replace('{"v":1', '{"v":2,"new":{"a":1}', 1)
    read = parse_entry(text)
    assert read is not None
    assert (read.v, read.batch_id) == (2, 0)


@pytest.mark.parametrize("text", [None, 5, "", "by hand", "{", "[]", "{}", '{"pipeline": "orders"}'])
def test_the_metadata_of_other_tools_is_no_entry(text: object) -> None:
    assert parse_entry(text) is None


def test_a_missing_table_has_no_commits(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    assert (read_commits(path), read_ledger(path), transaction_version(path, "orders")) == ([], [], None)


def test_commits_of_other_tools_stand_in_the_history_and_not_in_the_ledger(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    log = TableLog(path)
    log.create(COLUMNS)
    log.commit([], commit_of(0), COLUMNS)
    by_hand = CommitProperties(custom_metadata={"userMetadata": "by hand"})
    write_deltalake(path, pa.table({"id": [1, 2]}), mode="append", commit_properties=by_hand)
    log.commit([], commit_of(1), COLUMNS)
    history = [
        (commit.version, commit.entry.batch_id if commit.entry else None) for commit in read_commits(path)
    ]
    assert history == [(3, 1), (2, None), (1, 0), (0, None)]
    assert [commit.version for commit in read_ledger(path)] == [3, 1]
    assert [commit.version for commit in read_ledger(path, limit=2)] == [3]
    assert transaction_version(path, commit_of(0).app_id) == 1
    assert transaction_version(path, "orders:g0002:bronze/orders") is None


def test_a_commit_tells_rows_and_time(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    log = TableLog(path)
    log.create(COLUMNS)
    log.commit([], commit_of(0), COLUMNS)
    newest = read_ledger(path)[0]
    assert newest.rows == 0
    assert datetime.now(UTC) - newest.committed_at < timedelta(minutes=1)
    assert DeltaTable(path).version() == newest.version


def test_commits_keep_their_versions_while_others_commit(tmp_path: Path) -> None:
    """The library numbers its commits from the view's version on, whatever was committed since."""
    path = str(tmp_path / "orders")
    for number in range(60):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    table = open_table(path)
    assert table is not None
    history = History(path, table)
    for number in range(60, 63):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    told = {commit.version: commit.committed_at for commit in history}
    now = {commit.version: commit.committed_at for commit in read_commits(path)}
    assert list(told) == list(range(59, -1, -1))
    assert told == {version: now[version] for version in told}
    assert [commit.version for commit in commits_of(path, table, 2)] == [59, 58]
