"""The one rule by which a pipeline file names columns."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tidemill.spec.column_names import column_named, quoted, quoted_field

SINK = "- delta: {table: bronze/orders}"


@pytest.mark.parametrize(
    ("name", "columns", "found"),
    [
        ("people.id", ["people", "people.id"], "people.id"),
        ("people.id", ["people"], None),
        ("GRÖSSE", ["größe"], None),
        ("GRÖẞE", ["größe"], "größe"),
        ("id", ["ID", "id"], "id"),
        ("Id", ["ID", "id"], "ID"),
    ],
)
def test_a_name_is_the_column_of_this_name_or_else_of_another_case(
    name: str, columns: list[str], found: str | None
) -> None:
    assert column_named(name, columns) == found


def test_a_column_is_one_quoted_name_whatever_is_in_it() -> None:
    assert quoted("a.b c`d", "t.") == "t.`a.b c``d`"


@pytest.mark.parametrize(
    ("columns", "sql"), [(["s.x", "s"], "`s.x`"), (["S.X"], "`S.X`"), (["s"], "`s`.`x`")]
)
def test_a_field_of_a_struct_is_meant_only_if_no_column_has_the_name(columns: list[str], sql: str) -> None:
    assert quoted_field("s.x", columns) == sql


@pytest.mark.parametrize("character", [" ", ",", ";", "(", "`", "="])
@pytest.mark.parametrize("key", ["key", "partition_by", "cluster_by", "time"])
def test_a_name_that_no_delta_table_has_is_refused_with_the_character(
    project: ConfProject, key: str, character: str
) -> None:
    name = f'"a{character}b"'
    keys = {"key": f"mode: merge, key: [{name}]", "time": f"time: {name}"}.get(key, f"{key}: [{name}]")
    project.replace(SINK, "- delta: {table: bronze/orders, " + keys + "}")
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-003"
    assert str(error.facts["key"]).startswith(f"sinks[0].delta.{key}")
    assert repr(character) in error.problem


@pytest.mark.parametrize("mode", ["merge, key: [id]", "scd1, key: [id], cdc: {sequence_by: n}"])
def test_a_merge_into_a_table_that_is_partitioned_by_a_dotted_name_is_refused(
    project: ConfProject, mode: str
) -> None:
    project.replace(SINK, f"- delta: {{table: bronze/orders, partition_by: [a.b], mode: {mode}}}")
    error = project.refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-003", "sinks[0].delta")
    assert "partitioned by a.b" in error.problem
    assert "`cluster_by`" in error.problem
