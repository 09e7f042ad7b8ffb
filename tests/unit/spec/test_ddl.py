"""Columns and types as Spark DDL, without Spark; tests/spark/test_ddl.py compares with Spark's parser."""

from __future__ import annotations

import pytest

from tests.support.ddl_corpus import REFUSED_HERE, SAME, WRONG
from tidemill.spec.ddl import DdlColumn, DdlType, check_columns_or_type, parse_columns


def test_columns_are_read_in_order_with_canonical_types() -> None:
    ddl = "device STRING, `at time` timestamp_ltz NOT NULL,\np struct<x: double, y: array<map<string, long>>>"
    inner = DdlType("map", parts=(DdlType("string"), DdlType("bigint")))
    fields = (DdlColumn("x", DdlType("double")), DdlColumn("y", DdlType("array", parts=(inner,))))
    assert parse_columns(ddl) == (
        DdlColumn("device", DdlType("string")),
        DdlColumn("at time", DdlType("timestamp"), required=True),
        DdlColumn("p", DdlType("struct", fields=fields)),
    )


@pytest.mark.parametrize("ddl", SAME)
def test_right_columns_are_read(ddl: str) -> None:
    assert parse_columns(ddl)


@pytest.mark.parametrize("ddl", WRONG)
def test_wrong_columns_are_refused(ddl: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_columns(ddl)


@pytest.mark.parametrize(("ddl", "says"), REFUSED_HERE.items())
def test_types_that_no_decoder_fills_are_refused(ddl: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_columns(ddl)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("strin", "string"), ("str", "string"), ("text", "string"), ("varchr(10)", "varchar")),
        *(("bool", "boolean"), ("bigin", "bigint"), ("int64", "bigint"), ("bytes", "binary")),
        *(
            ("datetime", "timestamp"),
            ("timestmp", "timestamp"),
            ("float64", "double"),
            ("decimel(5, 2)", "decimal"),
        ),
        *(("list<int>", "array"), ("strukt<a: int>", "struct"), ("array<strin>", "string")),
    ],
)
def test_the_nearest_type_is_suggested(written: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"'customer' .*; did you mean {meant}\\?$"):
        parse_columns(f"order_id long, customer {written}")


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("order_id long customer strin", r"after 'order_id long', expected `,`.* found 'customer'"),
        ("a decimal(50, 2)", r"'a': decimal\(50, 2\) does not exist: a decimal has 1 to 38 digits"),
        ("a array<int", r"'a': expected `>` in its array; found the end"),
        ("a, b int", r"'a' has no type"),
        ("größe int", "in backticks: `größe`"),
        ("a " + "array<" * 150 + "int" + ">" * 150, "nested deeper than 100"),
        ("a int\x00", "cannot be read"),
    ],
)
def test_an_error_names_the_place(ddl: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_columns(ddl)


@pytest.mark.parametrize("ddl", ["double", "array<double>", "decimal(10, 2)", "a double, b string", "a: int"])
def test_the_result_of_a_model_is_a_type_or_columns(ddl: str) -> None:
    assert check_columns_or_type(ddl) == ddl


@pytest.mark.parametrize("ddl", ["doubel", "double, string", "a doubel", "array<double", "double > 1"])
def test_any_other_result_of_a_model_is_refused(ddl: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        check_columns_or_type(ddl)
