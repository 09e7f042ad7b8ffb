"""Batches that a shadow recomputes: the newest ones without other writers' commits in between."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidemill.checkpoint.current import Base, Current
from tidemill.checkpoint.upgrade.shadow import ShadowResult, Stretch, choose_stretch
from tidemill.errors import GateRefusedError
from tidemill.ledger.difference import Difference
from tidemill.ledger.entry import Code, LedgerEntry
from tidemill.ledger.read import Commit

AT = datetime(2026, 1, 1, tzinfo=UTC)
LIVE = "g0002"


def batch(
    number: int, generation: str | None = LIVE, mode: str = "stream", pipeline: str = "orders"
) -> LedgerEntry:
    return LedgerEntry(
        pipeline=pipeline,
        output="bronze/orders",
        mode=mode,  # type: ignore[arg-type]
        generation=generation,
        batch_id=number,
        run_id="r",
        rows=1,
        code=Code(tidemill="0", digest="d", spec="s"),
    )


def table(*entries: LedgerEntry | None, operation: str = "WRITE") -> list[Commit]:
    """Commits, newest first, of entries in the order in which they were written."""
    commits = [Commit(version, AT, operation, 1, entry) for version, entry in enumerate(entries)]
    return commits[::-1]


def chosen(
    tables: dict[str, list[Commit]], wanted: int = 3, held: range = range(10), began_after: int | None = None
) -> Stretch:
    base = None if began_after is None else Base(generation="g0001", batch_id=began_after)
    live = Current(pipeline="orders", generation=LIVE, why="a test", base=base)
    return choose_stretch(live, list(held), tables, wanted)


OWN = [batch(number) for number in range(10)]


def test_as_many_as_are_wanted_are_the_newest_ones() -> None:
    assert chosen({"a": table(None, *OWN)}) == Stretch(LIVE, 6, 9)
    assert list(chosen({"a": table(None, *OWN)}).batches) == [7, 8, 9]


def test_a_batch_that_was_committed_meanwhile_is_none_of_them() -> None:
    assert chosen({"a": table(None, *OWN, batch(10))}) == Stretch(LIVE, 6, 9)


def test_no_more_than_the_checkpoint_holds() -> None:
    assert chosen({"a": table(None, *OWN)}, 9, range(8, 10)) == Stretch(LIVE, 8, 9)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(None, id="somebody else's"),
        pytest.param(batch(4, None, "backfill"), id="a backfill's"),
        pytest.param(batch(7, "g0001"), id="an older generation's"),
        pytest.param(batch(2, LIVE, pipeline="others"), id="another pipeline's"),
        pytest.param(batch(7, LIVE, "base"), id="a verb's"),
    ],
)
def test_only_those_after_another_commit_but_the_first_of_them(other: LedgerEntry | None) -> None:
    """The copy begins at the first batch, at which the table's version is known."""
    interrupted = table(*OWN[:8], other, *OWN[8:])
    assert chosen({"a": interrupted, "b": table(None, *OWN)}) == Stretch(LIVE, 8, 9)


def test_another_commit_after_the_last_one_is_in_nobodys_way() -> None:
    assert chosen({"a": table(None, *OWN, None)}) == Stretch(LIVE, 6, 9)


def test_none_that_the_generation_was_begun_with() -> None:
    """Batches up to the sixth are a parent's, as after a rewind: the tables have them by its name."""
    copied = [*(batch(number, "g0001") for number in range(7)), batch(6, LIVE, "base")]
    assert chosen({"a": table(None, *copied, *OWN[7:])}, 9, began_after=6) == Stretch(LIVE, 7, 9)
    with pytest.raises(GateRefusedError) as refused:
        chosen({"a": table(None, *copied)}, held=range(7), began_after=6)
    assert str(refused.value.facts["because"]).startswith("the generation has made no batch of its own")


def test_a_table_that_few_batches_write_to_limits_nothing() -> None:
    assert chosen({"a": table(None, batch(2), batch(8))}) == Stretch(LIVE, 6, 9)
    assert chosen({"a": table(None, *OWN), "quarantine": []}) == Stretch(LIVE, 6, 9)


@pytest.mark.parametrize(
    ("tables", "held", "because"),
    [
        ({"a": table(None, *OWN)}, range(0), "none is finished"),
        ({"a": table(None, OWN[0])}, range(1), "it has no batch before"),
        ({"a": table(None, *OWN[:9], None, OWN[9])}, range(10), "another commit came before batch 9 in a"),
    ],
)
def test_where_none_can_be_compared_the_reason_is_told(
    tables: dict[str, list[Commit]], held: range, because: str
) -> None:
    with pytest.raises(GateRefusedError) as refused:
        chosen(tables, held=held)
    assert (refused.value.error_id, refused.value.facts["because"]) == ("TIDE-CTRL-095", because)


def test_a_result_tells_rows_columns_and_what_was_left_out() -> None:
    found = ShadowResult(
        pipeline="orders",
        generation=LIVE,
        first=9,
        last=9,
        differences=(
            Difference(name="quarantine", version=None, rows=0),
            Difference(
                name="a",
                version=3,
                rows=4,
                missing=1,
                surplus=2,
                missing_rows=("{1}",),
                surplus_rows=("{2}",),
            ),
        ),
        added={"a": ("mean",)},
        dropped={"a": ("sum", "total")},
        left_out={"sinks[1] (kafka)": "a shadow writes tables alone"},
    )
    assert list(found.lines()) == [
        "orders: batch 9 of g0002, made again by the declared version",
        "  same      quarantine: 0 rows",
        "  differs   a: 4 rows made, 1 of them not in the table, 2 in the table alone",
        "    now   {1}",
        "    table {2}",
        "  new       a: mean",
        "  gone      a: sum, total",
        "  left out  sinks[1] (kafka): a shadow writes tables alone",
    ]
    assert not found.is_same
    # A log has the same lines without the contents of the rows.
    without = [line for line in found.lines() if not line.startswith("    ")]
    assert list(found.without_rows().lines()) == without
    assert "{1}" not in found.without_rows().model_dump_json()


@pytest.mark.parametrize("told", ["added", "dropped"])
def test_other_columns_are_a_difference(told: str) -> None:
    same = ShadowResult(pipeline="orders", generation=LIVE, first=1, last=2, differences=())
    assert same.is_same
    assert not same.model_copy(update={told: {"a": ("x",)}}).is_same
