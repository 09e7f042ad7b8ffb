"""Feeds of changes that empty their table, or leave values unchanged, against a replay in order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.commits import commit_of
from tests.support.writer_cases import CrashedError, WriterCase, crash_at
from tidemill.errors import DataError, SpecError

COLUMNS = "id long, op string, name string, `no.te` string, seq long"
PLACEHOLDER = "__debezium_unavailable_value"
FEED = {
    "sequence_by": "seq",
    "apply_as_deletes": "op = 'd'",
    "truncate": "op = 't'",
    "unchanged": {"no.te": f"`no.te` = '{PLACEHOLDER}'"},
    "except_columns": ["op", "seq"],
}

# Key, operation, name, note, sequence.
Change = tuple[int | None, str, str | None, str | None, int]
# Name and note.
Value = tuple[str | None, str | None]


def case_of(spark_case: WriterCase, mode: str, **feed: Any) -> WriterCase:
    declared = {name: value for name, value in {**FEED, **feed}.items() if value is not None}
    return replace(spark_case, declaration={"mode": mode, "key": ["id"], "cdc": declared})


def apply(case: WriterCase, number: int, *changes: Change) -> None:
    frame = case.frame(*changes, columns=COLUMNS)
    assert case.writer(columns=COLUMNS).write(frame, commit_of(number)).committed


def random_feed(seed: int, keys: int = 40, length: int = 240, truncations: int = 3) -> list[Change]:
    """Changes with one sequence each, a few of them repeated, in any order."""
    dice = random.Random(seed)
    feed: list[Change] = []
    for sequence in range(length):
        key, name = dice.randrange(keys), dice.choice("abc")
        kind = dice.random()
        if kind < 0.2:
            feed.append((key, "d", None, None, sequence))
        else:
            note = PLACEHOLDER if kind < 0.6 else f"note {sequence}" if kind < 0.9 else None
            feed.append((key, "u", name, note, sequence))
    for sequence in dice.sample(range(length), truncations):
        feed[sequence] = (None, "t", None, None, sequence)
    feed += dice.sample(feed, length // 8)
    dice.shuffle(feed)
    return feed


def states(feed: Iterable[Change]) -> list[tuple[int, dict[int, Value]]]:
    """Return the table after each change, in their order, with the sequence."""
    table: dict[int, Value] = {}
    found = []
    for key, op, name, note, sequence in sorted(set(feed), key=lambda change: change[4]):
        if op == "t":
            table = {}
        elif op == "d":
            table = {other: value for other, value in table.items() if other != key}
        elif key is not None:
            old = table.get(key, (None, None))[1]
            table = {**table, key: (name, old if note == PLACEHOLDER else note)}
        found.append((sequence, table))
    return found


def live(case: WriterCase) -> dict[int, Value]:
    rows = [row for row in case.rows() if row["_deleted_at"] is None]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["name"], row["no.te"]) for row in rows}


def at(rows: list[dict[str, Any]], sequence: int) -> dict[int, Value]:
    """Return the rows that the history shows for this moment."""
    found = [
        row
        for row in rows
        if row["valid_from"] <= sequence and (row["valid_to"] is None or sequence < row["valid_to"])
    ]
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: (row["name"], row["no.te"]) for row in found}


def in_batches(feed: Sequence[Change], cuts: int, seed: int) -> list[Sequence[Change]]:
    places = sorted(random.Random(seed).sample(range(1, len(feed)), cuts))
    return [feed[start:end] for start, end in zip([0, *places], [*places, len(feed)], strict=True)]


SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (2, 3, 4))]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_scd1_table_is_that_of_the_feed_in_order_whatever_comes_first(
    spark_case: WriterCase, seed: int
) -> None:
    case, feed = case_of(spark_case, "scd1"), random_feed(seed)
    for number, changes in enumerate(in_batches(feed, cuts=3, seed=seed)):
        apply(case, number, *changes)
    assert live(case) == states(feed)[-1][1]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_scd2_table_is_the_history_of_the_feed_in_order_whatever_comes_first(
    spark_case: WriterCase, seed: int
) -> None:
    case, feed = case_of(spark_case, "scd2"), random_feed(seed)
    for number, changes in enumerate(in_batches(feed, cuts=3, seed=seed)):
        apply(case, number, *changes)
    rows = case.rows()
    for sequence, expected in states(feed):
        assert at(rows, sequence) == expected, sequence
    current = {row["id"]: (row["name"], row["no.te"]) for row in rows if row["is_current"]}
    assert current == states(feed)[-1][1]


@pytest.mark.parametrize("mode", ["scd1", "scd2"])
def test_a_truncation_in_a_batch_that_is_repeated_empties_the_table_once(
    spark_case: WriterCase, mode: str
) -> None:
    case = case_of(spark_case, mode)
    apply(case, 0, (1, "u", "a", "x", 1), (2, "u", "b", "y", 2))
    batch: list[Change] = [(3, "u", "c", "z", 4), (None, "t", None, None, 3), (1, "u", "A", "w", 5)]
    frame = case.frame(*batch, columns=COLUMNS)
    with pytest.raises(CrashedError):
        case.writer(crash_at("committed"), COLUMNS).write(frame, commit_of(1))
    assert not case.writer(columns=COLUMNS).write(frame, commit_of(1, "driver-2")).committed
    expected = {1: ("A", "w"), 3: ("c", "z")}
    # The same changes again, and a late change of a key that the table never had.
    apply(case, 2, *batch, (9, "u", "late", "late", 2))
    assert at_end(case, mode) == expected
    (truncation,) = [row for row in case.rows() if row["id"] is None]
    assert truncation["_deleted_at"] is not None
    if mode == "scd1":
        assert sorted(row["id"] for row in case.rows() if row["id"]) == [1, 3]
    else:
        assert at(case.rows(), 2) == {1: ("a", "x"), 2: ("b", "y"), 9: ("late", "late")}
        assert at(case.rows(), 3) == {}


def at_end(case: WriterCase, mode: str) -> dict[int, Value]:
    return live(case) if mode == "scd1" else at(case.rows(), 1_000)


@pytest.mark.parametrize("mode", ["scd1", "scd2"])
def test_a_value_that_a_change_leaves_out_is_that_of_the_change_before(
    spark_case: WriterCase, mode: str
) -> None:
    case = case_of(spark_case, mode, unchanged=f"`no.te` = '{PLACEHOLDER}'", truncate=None)
    # The value comes from an earlier change of the same batch.
    apply(case, 0, (1, "u", "a", "first", 1), (1, "u", "b", PLACEHOLDER, 2), (2, "u", "a", PLACEHOLDER, 2))
    assert at_end(case, mode) == {1: ("b", "first"), 2: ("a", None)}
    # The value comes from the table.
    apply(case, 1, (1, "u", "c", PLACEHOLDER, 9), (1, "u", "d", PLACEHOLDER, 10))
    assert at_end(case, mode)[1] == ("d", "first")
    # A late change sets what later ones left out, also where they knew none.
    apply(case, 2, (1, "u", "late", "second", 5), (2, "u", "late", "found", 1), (1, "u", "x", None, 3))
    assert at_end(case, mode) == {1: ("d", "second"), 2: ("a", "found")}
    apply(case, 3, (1, "u", "late", "older", 4))
    assert at_end(case, mode) == {1: ("d", "second"), 2: ("a", "found")}
    # A null is a value.
    apply(case, 4, (1, "u", "e", None, 11), (1, "u", "f", PLACEHOLDER, 12), (2, "d", None, None, 20))
    assert at_end(case, mode) == {1: ("f", None)}
    if mode == "scd2":
        assert at(case.rows(), 4) == {1: ("late", "older"), 2: ("a", "found")}
        assert at(case.rows(), 9)[1] == ("c", "second")


@pytest.mark.parametrize("mode", ["scd1", "scd2"])
def test_a_late_change_that_alters_nothing_writes_no_row(spark_case: WriterCase, mode: str) -> None:
    case = case_of(spark_case, mode)
    apply(case, 0, (None, "t", None, None, 3), (1, "u", "a", "x", 5), (1, "u", "b", PLACEHOLDER, 6))
    files, rows = case.data_files(), case.rows()
    apply(case, 1, (None, "t", None, None, 3), (1, "u", "b", PLACEHOLDER, 6))
    assert case.rows() == rows
    assert case.data_files() == files


@pytest.mark.parametrize("mode", ["scd1", "scd2", "merge"])
def test_rows_without_a_key_are_refused(spark_case: WriterCase, mode: str) -> None:
    case = case_of(spark_case, mode, truncate=None)
    if mode == "merge":
        case = replace(case, declaration={"mode": "merge", "key": ["id", "op"]})
    apply(case, 0, (1, "u", "a", "x", 1))
    before = case.rows()
    for op in ("u", "d", "t"):
        with pytest.raises(DataError) as refused:
            apply(case, 1, (2, "u", "a", "x", 2), (None, op, None, None, 3), (None, "u", None, None, 4))
        assert (op, refused.value.error_id) == (op, "TIDE-SINK-022")
        assert refused.value.facts["rows_without"] == {"id": 2}
        assert "`id` IS NOT NULL" in refused.value.fix
    assert case.rows() == before


def test_a_truncation_without_a_sequence_is_refused(spark_case: WriterCase) -> None:
    with pytest.raises(DataError) as refused:
        apply(case_of(spark_case, "scd1"), 0, (None, "t", None, None, None))  # type: ignore[arg-type]
    assert refused.value.error_id == "TIDE-CDC-003"


@pytest.mark.parametrize(
    ("unchanged", "reason"),
    [
        ("name = 'x' OR `no.te` = 'y'", "names name, no.te"),
        ("'name' = \"no\"", "names no column"),
        ("op = 'x'", "op is in the key, the sequence or among"),
    ],
)
def test_a_condition_that_does_not_say_which_column_stays_is_refused(
    spark_case: WriterCase, unchanged: str, reason: str
) -> None:
    with pytest.raises(SpecError) as refused:
        case_of(spark_case, "scd1", unchanged=unchanged).writer(columns=COLUMNS)
    assert refused.value.error_id == "TIDE-CDC-006"
    assert reason in str(refused.value.facts["reason"])


def test_a_column_that_stays_unchanged_must_be_there(spark_case: WriterCase) -> None:
    with pytest.raises(SpecError) as refused:
        case_of(spark_case, "scd1", unchanged={"body": "body = 'x'"}).writer(columns=COLUMNS)
    assert (refused.value.error_id, refused.value.facts["missing"]) == ("TIDE-CDC-001", ["body"])
