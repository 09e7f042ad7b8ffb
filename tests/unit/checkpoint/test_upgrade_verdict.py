"""The verdict from a new version's findings, and the comparison that needs no Spark plan."""

from __future__ import annotations

import json

import pytest

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.reading.state_schema import StateColumn, StateTable
from tidemill.checkpoint.upgrade.compare import UpgradeFacts, compare
from tidemill.checkpoint.upgrade.verdict import verdict_of
from tidemill.checkpoint.upgrade.version import KeptState, Meaning, PlannedVersion


def found(*errors: str) -> list[Finding]:
    return [Finding(error, "error", "orders", "It differs.") for error in errors]


@pytest.mark.parametrize(
    ("errors", "answer"),
    [
        ((), "compatible"),
        (("TIDE-CKPT-093",), "compatible"),
        (("TIDE-CKPT-093", "TIDE-CKPT-026"), "needs repartition"),
        (("TIDE-CKPT-026", "TIDE-CTRL-085"), "needs new generation"),
        (("TIDE-CTRL-085", "TIDE-PLAN-010", "TIDE-CKPT-026"), "refused"),
        (("TIDE-CKPT-029",), "refused"),
    ],
)
def test_the_worst_finding_decides(errors: tuple[str, ...], answer: str) -> None:
    verdict = verdict_of(found(*errors))
    assert verdict.answer == answer
    assert verdict.must_be_accepted is (errors == ("TIDE-CKPT-093",))
    assert (verdict.objection is None) is (not errors)


def test_the_objection_is_the_worst_one() -> None:
    verdict = verdict_of(found("TIDE-CKPT-093", "TIDE-CTRL-081"))
    assert verdict.objection is not None
    assert verdict.objection.finding_id == "TIDE-CTRL-081"


def column(name: str, kind: str = "long", *, nullable: bool = True) -> StateColumn:
    return StateColumn(name=name, type=json.dumps(kind), nullable=nullable)


def state(*value: StateColumn) -> KeptState:
    table = StateTable(name="default", key=(column("device", "string"),), value=value)
    return KeptState(number=0, name="stateStoreSave", partitions=2, stores=("default",), tables=(table,))


MEANT = (Meaning(kind="Aggregate", keys=("device",), functions=("Count",), inputs=("Count(1)",)),)


def ids(before: KeptState, after: KeptState, meant: tuple[Meaning, ...] = MEANT) -> list[str]:
    planned = PlannedVersion(operators=(after,), meanings=MEANT)
    return [finding.finding_id for finding in compare(UpgradeFacts("orders", (before,), planned, meant))]


def test_a_column_that_may_be_null_now_does_not_fit_and_one_that_may_not_be_does() -> None:
    strict, loose = state(column("n", nullable=False)), state(column("n", nullable=True))
    assert ids(strict, loose) == ["TIDE-CTRL-081"]
    assert ids(loose, strict) == []


def test_another_name_is_the_same_column_only_where_it_is_known_to_mean_the_same() -> None:
    old, new = state(column("n")), state(column("many"))
    assert ids(old, new) == []
    assert ids(old, new, meant=()) == ["TIDE-CTRL-083", "TIDE-CTRL-086"]


def test_code_that_only_moved_beside_the_transform_is_compared_where_its_meaning_is_known() -> None:
    """A helper that the transform imports is in no digest of the code."""
    kept, other = state(column("n")), (Meaning(kind="Aggregate", keys=("upper(device)",)),)
    planned = PlannedVersion(operators=(kept,), meanings=MEANT)
    found = compare(UpgradeFacts("orders", (kept,), planned, other, is_new_code=False))
    assert [finding.finding_id for finding in found] == ["TIDE-CTRL-085"]
    assert compare(UpgradeFacts("orders", (kept,), planned, (), is_new_code=False)) == []


def test_columns_that_changed_places_are_told() -> None:
    old, new = state(column("low"), column("high")), state(column("high"), column("low"))
    assert "TIDE-CTRL-083" in ids(old, new, meant=())


def test_what_cannot_be_compared_is_not_called_compatible() -> None:
    readable = state(column("n"))
    unread = readable.model_copy(update={"tables": (), "unread": ("default",)})
    assert ids(unread, readable) == ids(readable, unread) == ["TIDE-CTRL-088"]
    assert verdict_of(found("TIDE-CTRL-088")).answer == "refused"


def own_states(*names: str, column_name: str = "n") -> KeptState:
    settings = {"timeMode": "None", **{f"state {name}": "ValueState" for name in names}}
    return state(column(column_name)).model_copy(update={"settings": settings})


def test_a_state_more_or_less_is_taken_and_one_in_the_place_of_another_is_not() -> None:
    assert ids(own_states("seen"), own_states("seen", "more")) == []
    assert ids(own_states("seen", "more"), own_states("seen")) == []
    assert ids(own_states("seen"), own_states("met")) == ["TIDE-CTRL-083"]


def test_another_name_of_a_column_in_a_state_of_its_own_is_never_known_to_mean_the_same() -> None:
    assert ids(own_states("seen"), own_states("seen", column_name="many")) == ["TIDE-CTRL-083"]
