"""A half-written batch may only be finished by a version that makes the same rows."""

from __future__ import annotations

import pytest

from tidemill.engine.half_written import (
    Begun,
    QueryStart,
    StartAgainError,
    check_same_code,
    check_same_joined,
    check_same_set_aside,
)
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import Code, FilesRead, Joined, LedgerEntry, UsedModel


def entry(schemas: dict[str, str] | None, poison: tuple[str, ...] | None = None) -> LedgerEntry:
    code = Code(tidemill="1", digest="d", spec="s", rules="r")
    return LedgerEntry(
        pipeline="orders",
        output="bronze/orders",
        mode="stream",
        run_id="run",
        batch_id=7,
        source_schemas=schemas,
        poison_records=poison,
        code=code,
    )


@pytest.mark.parametrize("began", [{"source": "1-a"}, {"source": "2-b"}])
def test_a_batch_is_finished_with_the_columns_that_it_was_begun_with(began: dict[str, str]) -> None:
    now = entry({"source": "2-a"})
    with pytest.raises(GateRefusedError) as refused:
        check_same_code(now, {"bronze/orders": entry(began)}, ["silver/orders"])
    assert refused.value.error_id == "TIDE-SINK-007"
    assert refused.value.facts["began_with_schemas"] == began
    # Nothing is left to write, or the columns are the same.
    check_same_code(now, {"bronze/orders": entry(began)}, [])
    check_same_code(now, {"bronze/orders": entry({"source": "2-a"})}, ["silver/orders"])


def test_a_batch_of_before_columns_were_told_is_finished() -> None:
    check_same_code(entry({"source": "2-a"}), {"bronze/orders": entry(None)}, ["silver/orders"])
    check_same_code(entry(None), {"bronze/orders": entry(None)}, ["silver/orders"])


def test_a_batch_is_finished_without_the_records_that_it_was_begun_without() -> None:
    """The quarantine is already committed, so another rejected record would be in no table."""
    began, now = entry(None, ("orders-0-1",)), entry(None, ("orders-0-1", "orders-0-7"))
    with pytest.raises(GateRefusedError) as refused:
        check_same_code(now, {"quarantine": began}, ["bronze/orders"])
    assert refused.value.error_id == "TIDE-SINK-007"
    assert refused.value.facts["began_without"] == ("orders-0-1",)
    assert refused.value.facts["these_left_out"] == ("orders-0-1", "orders-0-7")
    check_same_code(began, {"quarantine": began}, ["bronze/orders"])


def test_a_batch_that_another_model_has_begun_is_refused_with_both() -> None:
    def scored_by(version: str) -> LedgerEntry:
        used = UsedModel(uri="models:/fraud@champion", version=version, digest=f"sha256:{version * 64}")
        code = Code(tidemill="1", digest="d", spec="s", rules=version, models={"fraud": used})
        return entry(None).model_copy(update={"code": code})

    began, now = scored_by("1"), scored_by("2")
    with pytest.raises(GateRefusedError) as refused:
        check_same_code(now, {"bronze/orders": began}, ["silver/orders"])
    told = (refused.value.facts["began_with_models"], refused.value.facts["these_models"])
    assert told == (
        {"fraud": "models:/fraud@champion version 1 sha256:111111111111"},
        {"fraud": "models:/fraud@champion version 2 sha256:222222222222"},
    )


def aside(**digests: str) -> LedgerEntry:
    return entry(None).model_copy(update={"set_aside": digests or None})


BOTH = {"quarantine": aside(a="1", b="2")}


@pytest.mark.parametrize(
    ("held", "left", "now", "differing"),
    [
        (BOTH, ["a", "b"], aside(a="1", b="3"), ["b"]),
        (BOTH, ["a", "b"], aside(a="1", b="2"), []),
        # What is written was written with what the quarantine holds.
        (BOTH | {"b": aside(a="1", b="2")}, ["a"], aside(a="1", b="3"), []),
        (BOTH | {"a": aside(a="1", b="2")}, ["state"], aside(a="9", b="9"), []),
        # Nothing went to the quarantine: what goes there now of a written table would be in both.
        ({"a": aside(a="0", b="0")}, ["b"], aside(a="7", b="0"), ["a"]),
        ({"a": aside(a="0", b="0")}, ["b"], aside(a="0", b="7"), []),
        # Entries from before digests were stored, or without expectations.
        ({"quarantine": aside()}, ["a"], aside(a="7"), []),
        ({"a": aside()}, ["b"], aside(), []),
        ({}, ["a"], aside(a="7"), []),
        (BOTH, [], aside(a="7", b="7"), []),
    ],
)
def test_a_batch_is_finished_with_the_rows_that_its_quarantine_holds(
    held: dict[str, LedgerEntry], left: list[str], now: LedgerEntry, differing: list[str]
) -> None:
    if not differing:
        check_same_set_aside(now, held, left)
        return
    with pytest.raises(GateRefusedError) as refused:
        check_same_set_aside(now, held, left)
    assert (refused.value.error_id, refused.value.facts["rows_differ_of"]) == ("TIDE-SINK-007", differing)


OLD, NEW = (FilesRead(digest=f"sha256:{digest}", files=1, bytes=9) for digest in "ab")


@pytest.mark.parametrize(
    ("began", "now"),
    [
        (Joined(files={"users": OLD}), Joined(files={"users": NEW})),
        (
            Joined(tables={"shops": 3}, files={"users": OLD}),
            Joined(tables={"shops": 4}, files={"users": OLD}),
        ),
    ],
)
def test_a_batch_is_finished_with_the_contents_that_it_was_joined_with(began: Joined, now: Joined) -> None:
    held, later = {"bronze/orders": entry(None).with_joined(began)}, entry(None).with_joined(now)
    with pytest.raises(StartAgainError) as again:
        check_same_joined(later, held, ["silver/orders"])
    assert again.value.start == QueryStart(Begun(7, began))
    # Nothing is left to write, or the contents are the same, or the batch needs no row of them this time.
    check_same_joined(later, held, [])
    check_same_joined(entry(None).with_joined(began), held, ["silver/orders"])
    check_same_joined(entry(None), held, ["silver/orders"])
