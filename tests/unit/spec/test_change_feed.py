"""Tables of change feeds: what is declared wrongly is refused with its key and the reason."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tests.support.declared import declared
from tidemill.ledger.shape import shape_of
from tidemill.spec.change_feed import named_in

SINK = "- delta: {table: bronze/orders}"
CDC = "cdc: {sequence_by: seq}"


@pytest.mark.parametrize(
    ("keys", "key", "says"),
    [
        ("mode: scd1, key: [id]", "sinks[0].delta", "scd1 and scd2 need it"),
        (f"mode: merge, key: [id], {CDC}", "sinks[0].delta", "other modes refuse it"),
        (f"mode: scd2, {CDC}", "sinks[0].delta", "scd2 and merge need it"),
        (f"mode: scd1, key: [id], writer: arrow, {CDC}", "sinks[0].delta", "arrow writer cannot"),
        (f"mode: scd1, key: [id], {CDC}, options: {{compression: zstd}}", "sinks[0].delta", "takes none"),
        (
            "mode: scd1, key: [id], cdc: {sequence_by: seq, except_columns: [Id]}",
            "sinks[0].delta",
            "among `except_columns`",
        ),
        (
            "mode: scd2, key: [id], cdc: {sequence_by: seq, forget_deletes_after: 1 day}",
            "sinks[0].delta",
            "is for scd1",
        ),
        (f"mode: scd2, key: [id], {CDC}, schema_evolution: add_columns", "sinks[0].delta", "never had"),
        (
            "mode: scd1, key: [id], cdc: {sequence_by: seq, unchanged: {Id: x}}",
            "sinks[0].delta",
            "Id of `unchanged` is in the key",
        ),
        ("mode: scd1, key: [id], cdc: {sequence: seq}", "sinks[0].delta.cdc.sequence", "unknown key"),
    ],
)
def test_a_wrong_feed_is_refused_with_its_key(project: ConfProject, keys: str, key: str, says: str) -> None:
    project.replace(SINK, "- delta: {table: bronze/orders, " + keys + "}")
    error = project.refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-003", key)
    assert says in error.problem


def test_the_gate_sees_another_order_and_not_how_long_deletes_are_remembered(tmp_path) -> None:
    def shape(**feed: str) -> str:
        cdc = {"sequence_by": "seq", **feed}
        sink = {"table": "silver/orders", "mode": "scd1", "key": ["id"], "cdc": cdc}
        return shape_of(declared(tmp_path, sinks=[{"delta": sink}]).spec).sinks["silver/orders"].cdc

    assert shape(forget_deletes_after="1 day") == shape()
    declared_keys = ("apply_as_deletes", "truncate", "unchanged")
    assert len({shape(), *(shape(**{key: "op = 'd'"}) for key in declared_keys)}) == 4


def test_the_gate_reads_a_feed_as_it_was_before_it_could_be_truncated(tmp_path) -> None:
    cdc = {"sequence_by": "seq", "apply_as_deletes": "op = 'd'"}
    sink = {"table": "silver/orders", "mode": "scd1", "key": ["id"], "cdc": cdc}
    shape = shape_of(declared(tmp_path, sinks=[{"delta": sink}]).spec).sinks["silver/orders"]
    assert shape.cdc == '{"sequence_by":"seq","apply_as_deletes":"op = \'d\'","except_columns":[]}'


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("note = '__debezium_unavailable_value'", ["note"]),
        ("`no.te` = 'note' AND upper(no.te) = \"it''s\"", ["no.te"]),
        ("NOTE IS NULL OR after.x = 1 OR note(1) = 2", ["note", "after"]),
        ("'note' = 'x'", []),
    ],
)
def test_the_columns_that_a_condition_names_are_found_without_spark(condition: str, found: list[str]) -> None:
    assert named_in(condition, ["note", "no.te", "after"]) == found


def test_appended_changes_and_their_table_come_from_one_read(tmp_path) -> None:
    history = {"table": "silver/orders", "mode": "scd2", "key": ["id"], "cdc": {"sequence_by": "seq"}}
    sinks = [{"delta": {"table": "bronze/orders"}}, {"delta": history}]
    assert declared(tmp_path, sinks=sinks).spec.output_mode == "append"
    with pytest.raises(ValueError, match="share one result"):
        declared(tmp_path, sinks=[*sinks, {"delta": {"table": "gold/b", "mode": "merge", "key": ["id"]}}])
