"""Declarations of a table's `expectations`, as far as they can be checked without Spark."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tidemill.ledger.code import code_of
from tidemill.ledger.shape import shape_of
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.spec.expectations import why_not_of_one_row

TABLE = "delta: {table: bronze/orders}"


def expecting(project: ConfProject, wanted: str, sink: str = "", condition: str = "id <> ''") -> ConfProject:
    expectations = f'expectations: {{known: {{expect: "{condition}", on_violation: {wanted}}}}}'
    project.replace(TABLE, f"delta: {{table: bronze/orders, {sink}{expectations}}}")
    return project


@pytest.mark.parametrize("wanted", ["warn", "drop", "quarantine", "fail"])
def test_each_action_goes_with_a_plain_table(project: ConfProject, wanted: str) -> None:
    (table,) = expecting(project, wanted).resolve().spec.delta_sinks
    assert table.expectations["known"].on_violation == wanted
    assert table.quarantines == (wanted == "quarantine")


@pytest.mark.parametrize(
    ("mode", "wanted", "reason"),
    [
        ("merge", "drop", "would let an older one of its key stand"),
        ("merge", "quarantine", "would let an older one of its key stand"),
        ("merge", "fail", ""),
        ("merge", "warn", ""),
        ("replace", "quarantine", "would quarantine the same rows again"),
        ("replace", "drop", ""),
        ("replace", "fail", ""),
        ("scd1", "drop", "a deletion that is left out would let its row stand"),
        ("scd1", "fail", "the row before an update would be checked once more"),
    ],
)
def test_what_would_leave_a_wrong_table_or_the_same_rows_again_is_refused(
    project: ConfProject, mode: str, wanted: str, reason: str
) -> None:
    keys = {"merge": "key: [id], ", "scd1": "key: [id], cdc: {sequence_by: at}, "}
    expecting(project, wanted, f"mode: {mode}, {keys.get(mode, '')}")
    if not reason:
        assert project.resolve().spec.has_expectations
        return
    refused = project.refusal()
    assert refused.error_id == "TIDE-SPEC-003"
    assert reason in str(refused)


def test_without_an_action_a_violation_is_counted_only(project: ConfProject) -> None:
    project.replace(TABLE, "delta: {table: bronze/orders, expectations: {known: {expect: id > 1}}}")
    (table,) = project.resolve().spec.delta_sinks
    assert table.expectations["known"].on_violation == "warn"


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("at < current_timestamp", "current_timestamp"),
        ("at < NOW()", "NOW"),
        ("rand() < 0.5", "rand"),
        ("count(*) > 1", "count"),
        ("sum (amount) > 1", "sum"),
        ("row_number() over (order by id) = 1", "over"),
        ("id in (select id from t)", "select"),
        ("note <> 'now()' and `count(` > 1 and discount > 3 and exists(items, i -> i > 0)", ""),
        ("note <> 'it''s (select' and note <> \"sum(\" and max_temperature > 1 and known(id)", ""),
    ],
)
def test_conditions_that_are_not_of_one_row_are_named_without_spark(condition: str, named: str) -> None:
    reason = why_not_of_one_row(condition)
    assert (f"`{named}`" in reason) if named else reason == ""


def test_such_a_condition_is_refused_by_validate(project: ConfProject) -> None:
    refused = expecting(project, "warn", condition="count(*) > 1").refusal()
    assert refused.error_id == "TIDE-SPEC-003"
    assert "`count` cannot be used in an expectation" in str(refused)


def test_expectations_are_code_and_not_the_shape_of_a_checkpoint(project: ConfProject) -> None:
    """A batch cannot be finished under another declaration, but a new one needs no new checkpoint."""
    before = project.resolve()
    after = expecting(project, "quarantine").resolve()
    assert code_of(before).rules != code_of(after).rules
    assert before.definition_digest != after.definition_digest
    assert shape_of(before.spec) == shape_of(after.spec)


def test_the_quarantine_is_looked_at_when_nothing_goes_there_any_more(project: ConfProject) -> None:
    project.replace(
        "payload:\n  json: {schema: order.json}\nevent_time: {column: at, watermark: 10 minutes}\n", ""
    )
    assert not project.resolve().spec.has_quarantine
    assert project.resolve().spec.asides == (QUARANTINE_OUTPUT,)
