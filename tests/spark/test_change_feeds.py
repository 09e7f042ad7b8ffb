"""Feeds of changes in any order, applied to tables that keep the newest row, or all of them."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.commits import commit_of
from tests.support.lake import Lake
from tests.support.rewinds import acknowledge, newest_batch, rewind
from tests.support.writer_cases import CrashedError, WriterCase, crash_at
from tidemill.errors import DataError, SpecError, UsageError
from tidemill.sinks.change_rows import change_rows, newest
from tidemill.spec.delta_sink import DeltaSink

COLUMNS = "id long, op string, name string, seq long"
FEED = {"sequence_by": "seq", "apply_as_deletes": "op = 'd'", "except_columns": ["op", "seq"]}

# Key, operation, name, sequence.
Change = tuple[int, str, str | None, int]


def case_of(spark_case: WriterCase, mode: str, **feed: Any) -> WriterCase:
    return replace(spark_case, declaration={"mode": mode, "key": ["id"], "cdc": {**FEED, **feed}})


def apply(case: WriterCase, number: int, changes: Iterable[Change]) -> None:
    written = case.writer(columns=COLUMNS).write(case.frame(*changes, columns=COLUMNS), commit_of(number))
    assert written.committed


def random_feed(keys: int, seed: int) -> list[Change]:
    """Generate up to six changes of each key, with ties and repetitions; each key is a separate case."""
    dice = random.Random(seed)
    feed: list[Change] = []
    for key in range(keys):
        for _ in range(dice.randint(1, 6)):
            sequence = dice.randint(0, 5)
            is_delete = dice.random() < 0.35
            feed.append((key, "d", None, sequence) if is_delete else (key, "u", dice.choice("abc"), sequence))
    dice.shuffle(feed)
    return feed


def in_batches(feed: Sequence[Change], cuts: int, seed: int) -> list[Sequence[Change]]:
    places = sorted(random.Random(seed).sample(range(1, len(feed)), cuts))
    return [feed[start:end] for start, end in zip([0, *places], [*places, len(feed)], strict=True)]


def replayed(feed: Iterable[Change]) -> dict[int, list[Change]]:
    """Return the changes of each key in order, one per sequence: a delete wins, then the greater name."""
    changes: dict[int, dict[int, Change]] = defaultdict(dict)
    for change in feed:
        key, op, name, sequence = change
        there = changes[key].get(sequence)
        if there is None or (op == "d", name or "") > (there[1] == "d", there[2] or ""):
            changes[key][sequence] = change
    return {key: [found[sequence] for sequence in sorted(found)] for key, found in changes.items()}


def live(case: WriterCase) -> dict[int, str]:
    return {row["id"]: row["name"] for row in case.rows() if row["_deleted_at"] is None}


def history(case: WriterCase) -> list[tuple[Any, ...]]:
    """Intervals as a reader sees them: those that hold a moment."""
    rows = [row for row in case.rows() if row["valid_from"] != row["valid_to"]]
    assert all(row["_deleted_at"] is None for row in rows)
    columns = ("id", "name", "valid_from", "valid_to", "is_current")
    return sorted((tuple(row[name] for name in columns) for row in rows), key=str)


def test_a_feed_in_any_order_sent_twice_and_killed_leaves_the_newest_row_of_each_key(
    spark_case: WriterCase,
) -> None:
    case, feed = case_of(spark_case, "scd1", forget_deletes_after="1 day"), random_feed(300, seed=1)
    first, second = in_batches(feed, cuts=1, seed=1)
    apply(case, 0, first)
    frame = case.frame(*second, *second[:50], columns=COLUMNS)
    with pytest.raises(CrashedError):
        case.writer(crash_at("committed"), COLUMNS).write(frame, commit_of(1))
    assert not case.writer(columns=COLUMNS).write(frame, commit_of(1, "driver-2")).committed
    newest = {key: changes[-1] for key, changes in replayed(feed).items()}
    assert live(case) == {key: name for key, (_, op, name, _) in newest.items() if op != "d"}
    assert {row["id"]: row["_sequence"] for row in case.rows()} == {k: c[3] for k, c in newest.items()}
    # Deletes are forgotten at the age that is declared, and no other row is.
    aged = "_deleted_at = _deleted_at - INTERVAL 2 DAYS WHERE id < 150 AND _deleted_at IS NOT NULL"
    case.spark.sql(f"UPDATE delta.`{case.path}` SET {aged}").collect()
    apply(case, 2, [(1000, "u", "a", 1)])
    stays = [key for key, (_, op, _, _) in newest.items() if op != "d" or key >= 150]
    assert 0 < len(stays) < len(newest)
    assert case.ids() == sorted([*stays, 1000])


@pytest.mark.soak
def test_a_feed_in_any_order_leaves_the_history_of_each_key(spark_case: WriterCase) -> None:
    case, feed = case_of(spark_case, "scd2"), random_feed(300, seed=2)
    for number, changes in enumerate(in_batches(feed, cuts=2, seed=2)):
        apply(case, number, changes)
    expected = []
    for changes in replayed(feed).values():
        following = [*(change[3] for change in changes[1:]), None]
        for (key, op, name, sequence), end in zip(changes, following, strict=True):
            if op != "d":
                expected.append((key, name, sequence, end, end is None))
    assert history(case) == sorted(expected, key=str)


@pytest.mark.parametrize("order", [1, -1])
def test_a_commit_that_deletes_and_inserts_a_row_replaces_it(spark: SparkSession, order: int) -> None:
    cdc = {"sequence_by": "_commit_version", "apply_as_deletes": "_change_type = 'delete'"}
    sink = DeltaSink.model_validate({"table": "gold/a", "mode": "scd1", "key": ["id"], "cdc": cdc})
    feed = [
        (1, "old", "delete", 7),
        (1, "new", "insert", 7),
        (2, "zzz", "update_preimage", 7),
        (2, "new", "update_postimage", 7),
        (3, "old", "delete", 7),
    ][::order]
    changes = spark.createDataFrame(feed, "id long, name string, _change_type string, _commit_version long")
    kept = newest(change_rows(changes, sink), sink, ["id"]).collect()
    assert sorted((row["id"], row["name"], row["_deleted_at"] is None) for row in kept) == [
        (1, "new", True),
        (2, "new", True),
        (3, None, False),
    ]


@pytest.mark.soak
def test_a_rewind_takes_changes_back_that_a_wrong_transform_made(lake: Lake) -> None:
    tables, feed = ("silver/now", "silver/history"), random_feed(20, seed=3)
    right = "def transform(changes):\n    return changes"
    pipeline = lake.pipeline(
        "customers",
        source={"files": {"path": "landing", "format": "json", "schema": COLUMNS}},
        transform=lake.transform("customers", right),
        sinks=[
            {"delta": {"table": table, "mode": mode, "key": ["id"], "cdc": FEED}}
            for table, mode in zip(tables, ("scd1", "scd2"), strict=True)
        ],
    )

    def land(number: int, changes: Iterable[Change]) -> None:
        names = ("id", "op", "name", "seq")
        lake.land_rows(f"landing/{number}.json", [dict(zip(names, row, strict=True)) for row in changes])

    def found() -> list[list[str]]:
        # When a delete was written is of the batch that wrote it.
        rows = [[{**row, "_deleted_at": bool(row["_deleted_at"])} for row in lake.rows(t)] for t in tables]
        return [sorted(map(str, of_table)) for of_table in rows]

    first, second = in_batches(feed, cuts=1, seed=3)
    land(0, first)
    pipeline.run_incremental()
    before, batch = found(), newest_batch(pipeline)
    lake.transform("customers", f"{right}.withColumn('id', changes.id % 7).withColumn('op', changes.op)")
    acknowledge(pipeline)
    land(1, second)
    pipeline.run_incremental()
    assert found() != before
    rewind(pipeline, batch)
    assert found() == before
    lake.transform("customers", right)
    pipeline.run_incremental()
    newest_of = {key: changes[-1] for key, changes in replayed(feed).items()}
    kept = {row["id"]: row["name"] for row in lake.rows(tables[0]) if row["_deleted_at"] is None}
    assert kept == {key: name for key, (_, op, name, _) in newest_of.items() if op != "d"}
    current = {row["id"]: row["name"] for row in lake.rows(tables[1]) if row["is_current"]}
    assert current == kept


def test_changes_without_a_sequence_are_refused(spark_case: WriterCase) -> None:
    case = case_of(spark_case, "scd1")
    with pytest.raises(DataError) as refused:
        apply(case, 0, [(1, "u", "a", 1), (2, "u", "b", None)])  # type: ignore[list-item]
    assert (refused.value.error_id, refused.value.facts["changes_without"]) == ("TIDE-CDC-003", 1)
    assert case.rows() == []


def test_customers_and_their_history_are_written_once_though_a_run_crashes_between_them(lake: Lake) -> None:
    pipeline = lake.copy_pipeline("customers")
    ada = {"id": 1, "name": "Ada"}
    # The last change first, and a delete before its insert.
    lake.land_rows(
        "landing/customers/1.json",
        [
            {**ada, "city": "Rome", "op": "u", "lsn": 3},
            {**ada, "city": "Oslo", "op": "c", "lsn": 1},
            {"id": 2, "op": "d", "lsn": 8},
            {"id": 2, "name": "Bo", "city": "Bern", "op": "c", "lsn": 5},
        ],
    )
    commits = itertools.count(1)

    def crash_between(step: str) -> None:
        if step == "committed" and next(commits) == 2:
            raise CrashedError(step)

    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_between)
    pipeline.run_incremental()
    assert sorted(row["lsn"] for row in lake.rows("bronze/customer_changes")) == [1, 3, 5, 8]
    customers = [row for row in lake.rows("silver/customers") if row["_deleted_at"] is None]
    assert [(row["id"], row["city"], row["_sequence"]) for row in customers] == [(1, "Rome", 3)]
    moves = [
        (row["city"], row["valid_from"], row["valid_to"], row["is_current"])
        for row in lake.rows("silver/customer_history")
        if row["valid_from"] != row["valid_to"]
    ]
    assert sorted(moves) == [("Bern", 5, 8, False), ("Oslo", 1, 3, False), ("Rome", 3, None, True)]
    for table in ("silver/customers", "silver/customer_history"):
        assert [commit.entry.batch_id for commit in lake.ledger(table) if commit.entry] == [0]
    with pytest.raises(UsageError) as refused:
        pipeline.plan("2024-01-01", "2024-01-02")
    assert (refused.value.error_id, refused.value.facts["table"]) == ("TIDE-BACK-011", "silver/customers")


@pytest.mark.parametrize(
    ("feed", "error_id", "facts"),
    [
        ({"sequence_by": "lsn"}, "TIDE-CDC-001", {"missing": ["lsn"]}),
        ({"except_columns": ["OPS"]}, "TIDE-CDC-001", {"missing": ["OPS"]}),
        ({"sequence_by": "tags"}, "TIDE-CDC-002", {"type": "list<element: string>"}),
    ],
)
def test_a_declaration_that_does_not_fit_the_changes_is_refused_before_a_query(
    spark_case: WriterCase, feed: dict[str, Any], error_id: str, facts: dict[str, Any]
) -> None:
    with pytest.raises(SpecError) as refused:
        case_of(spark_case, "scd2", **feed).writer(columns=f"{COLUMNS}, tags array<string>")
    assert (refused.value.error_id, {**refused.value.facts, **facts}) == (error_id, refused.value.facts)


def test_a_column_of_the_changes_with_a_name_of_the_table_is_refused(spark_case: WriterCase) -> None:
    with pytest.raises(SpecError) as refused:
        case_of(spark_case, "scd2").writer(columns=f"{COLUMNS}, Valid_To long")
    assert refused.value.facts["names_of_the_table"] == ["Valid_To"]
