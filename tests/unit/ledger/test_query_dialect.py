"""Texts that Spark and DataFusion read differently, by the rows that DataFusion then gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.query_expressions import EXPRESSIONS, ROWS
from tidemill.errors import UsageError
from tidemill.ledger.query_dialect import in_datafusion
from tidemill.ledger.table_query import Result, run_query
from tidemill.names import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(str(tmp_path))
    write_deltalake(layout.table("silver/readings"), ROWS)
    return layout


def value(layout: Layout, expression: str) -> Any:
    """Return an expression of the row that has values."""
    sql = f"SELECT {expression} AS v FROM silver.readings WHERE amount IS NOT NULL"
    return run_query(layout, sql, 2).rows[0]["v"]


@pytest.mark.parametrize(("expression", "by_spark"), [*EXPRESSIONS, ("date_format(at, '%Y')", "2026")])
def test_one_text_has_the_value_that_spark_gives_it(layout: Layout, expression: str, by_spark: Any) -> None:
    assert value(layout, expression) == by_spark


def test_an_aggregate_leaves_nulls_out_as_sparks_does(layout: Layout) -> None:
    assert run_query(layout, "SELECT array_agg(site) AS v FROM silver.readings", 1).rows == [{"v": ["aab"]}]


@pytest.mark.parametrize(
    ("expression", "fix"),
    [
        ("date_format(at, 'yyyy-ww')", "leave `ww` out"),
        ("date_format(at, site)", "write the pattern as a text"),
        ("substr(site, -2, 1)", "right(text, 2)"),
        ("array_agg(DISTINCT site)", "array_agg(column)"),
        ("tags[0]", "array_element(column, 1)"),
        ("concat(site, tags [ 1 ])", "array_element(column, 1)"),
    ],
)
def test_a_call_that_has_no_equal_is_refused(layout: Layout, expression: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_query(layout, f"SELECT {expression} FROM silver.readings", 1)
    assert caught.value.error_id == "TIDE-QUERY-008"
    assert fix in caught.value.fix


def test_arrays_are_made_and_fields_are_picked_in_brackets(layout: Layout) -> None:
    assert value(layout, "ARRAY[1, 2]") == [1, 2]
    assert value(layout, "ARRAY[3]") == [3]
    assert value(layout, "[3]") == [3]
    assert value(layout, "payload['firmWare']") == 2
    assert value(layout, "array_element(tags, 1)") == "x"


@pytest.mark.parametrize(("direction", "first"), [("ASC", None), ("DESC", 7)])
def test_nulls_are_sorted_as_spark_sorts_them(layout: Layout, direction: str, first: int | None) -> None:
    sql = f"SELECT amount FROM silver.readings ORDER BY amount {direction}"
    assert run_query(layout, sql, 1).rows == [{"amount": first}]


def headings(result: Result) -> list[str]:
    return list(result.columns)


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ("max(amount)", ["max(amount)"]),
        ("count(*)", ["count(*)"]),
        ("DISTINCT max( amount )", ["max( amount )"]),
        ("date_format(at, 'MM'), site", ["date_format(at, 'MM')", "site"]),
        ("max(amount) AS Highest", ["Highest"]),
        ("DISTINCT site AS Site", ["Site"]),
        ("amount / 2, amount * silver.readings.amount", ["amount / 2", "amount * silver.readings.amount"]),
        ("amount half, *", ["half", "at", "site", "amount", "deviceId", "tags", "payload"]),
        ('max(amount) "Highest amount"', ["Highest amount"]),
        ("CAST(amount AS INT)", ["CAST(amount AS INT)"]),
        ("deviceId, amount + 1 AS Next", ["deviceId", "Next"]),
        ("payload.firmWare", ["payload[firmWare]"]),
        ("sum(amount) OVER (PARTITION BY site)", ["sum(amount) OVER (PARTITION BY site)"]),
    ],
)
def test_a_result_has_the_headings_that_are_selected(
    layout: Layout, selected: str, expected: list[str]
) -> None:
    grouped = " GROUP BY at, site" if "date_format" in selected else ""
    assert headings(run_query(layout, f"SELECT {selected} FROM silver.readings{grouped}", 1)) == expected


def test_an_alias_is_found_by_its_name_in_the_rest_of_the_query(layout: Layout) -> None:
    sql = (
        "WITH Daily AS (SELECT site AS Place, max(amount) AS Highest FROM silver.readings R GROUP BY R.site) "
        "SELECT Daily.PLACE, highest FROM daily WHERE Place IS NOT NULL ORDER BY HIGHEST DESC"
    )
    found = run_query(layout, sql, 5)
    assert (headings(found), found.rows) == (["Place", "Highest"], [{"Place": "aab", "Highest": 7}])


def test_a_table_that_is_read_twice_keeps_its_columns_apart(layout: Layout) -> None:
    write_deltalake(layout.table("gold/sites"), pa.table({"amount": [1], "site": ["aab"]}))
    joined = "FROM silver.readings JOIN gold.sites ON silver.readings.site = gold.sites.site"
    for ending in ("+ 1", "IS NULL"):
        selected = [f"silver.readings.amount {ending}", f"gold.sites.amount {ending}"]
        assert headings(run_query(layout, f"SELECT {', '.join(selected)} {joined}", 5)) == selected


@pytest.mark.parametrize(
    "text", ["SELECT (1", "SELECT 1)", "SELECT f((", "SELECT 'a", ")", "SELECT date_format("]
)
def test_a_text_that_is_cut_off_is_handed_on(text: str) -> None:
    assert in_datafusion(text).replace(" ", "").startswith(text.replace(" ", "")[:8])


def test_show_tables_shows_what_a_query_can_name(layout: Layout) -> None:
    write_deltalake(layout.table("gold/sites"), pa.table({"site": ["aab"]}))
    write_deltalake(layout.quarantine("orders"), pa.table({"reason": ["r"]}))
    shown = run_query(layout, "show tables;", 10)
    assert headings(shown) == ["namespace", "tableName"]
    assert [tuple(row.values()) for row in shown.rows] == [
        ("gold", "sites"),
        ("quarantine", "orders"),
        ("silver", "readings"),
    ]
    assert run_query(layout, "SHOW TABLES IN gold", 10).rows == [{"namespace": "gold", "tableName": "sites"}]
    assert run_query(layout, "SHOW TABLES", 2).more
