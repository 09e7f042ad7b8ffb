"""What Spark and DataFusion mean differently by one text, by the rows that DataFusion then gives."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tidemill.errors import UsageError
from tidemill.ledger.query_dialect import in_datafusion
from tidemill.ledger.table_query import Result, run_query
from tidemill.names import Layout

AT = datetime(2026, 3, 1, 7, 8, 9, 120000, tzinfo=UTC)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A table with a row of values and a row of nulls; 1 March 2026 is a Sunday."""
    layout = Layout(str(tmp_path))
    rows = pa.table(
        {
            "at": pa.array([AT, None], pa.timestamp("us", "UTC")),
            "site": ["aab", None],
            "amount": pa.array([7, None], pa.int64()),
            "deviceId": ["d1", None],
            "tags": pa.array([["x", None, "x"], None], pa.list_(pa.string())),
            "payload": pa.array([{"firmWare": 2}, None], pa.struct({"firmWare": pa.int64()})),
        }
    )
    write_deltalake(layout.table("silver/readings"), rows)
    return layout


def value(layout: Layout, expression: str) -> Any:
    """Return an expression of the row that has values."""
    sql = f"SELECT {expression} AS v FROM silver.readings WHERE amount IS NOT NULL"
    return run_query(layout, sql, 2).rows[0]["v"]


@pytest.mark.parametrize(
    ("expression", "by_spark"),
    [
        ("date_format(at, 'yyyy-MM-dd HH:mm:ss.SSS')", "2026-03-01 07:08:09.120"),
        ("date_format(at, 'EEE d MMM yy, h a')", "Sun 1 Mar 26, 7 AM"),
        ("date_format(at, 'yyyy''T''MM')", "2026T03"),
        ("date_format(at, '%Y')", "2026"),
        ("DATE_FORMAT ( at , 'MM' )", "03"),
        ("to_date('01/02/2026', 'dd/MM/yyyy')", date(2026, 2, 1)),
        ("upper(date_format(at, 'MMM'))", "MAR"),
        ("round(log(amount), 4)", 1.9459),
        ("log(7, amount)", 1.0),
        ("regexp_replace(site, 'a', 'x')", "xxb"),
        ("concat(site, '-', site)", "aab-aab"),
        ("concat(site, CAST(NULL AS STRING))", None),
        ("substr(site, -2)", "ab"),
        ("substring(site, 2)", "ab"),
        ("date_part('dow', at)", 1),
        ("extract(DOW FROM at)", 1),
        ("extract(YEAR FROM at)", 2026),
        ("amount / 2", 3.5),
        ("10 - amount / 2", 6.5),
        ("array_remove(tags, 'x')", [None]),
        ("'date_format(at)' || ' a/b'", "date_format(at) a/b"),
        ("`site`", "aab"),
        ("deviceid", "d1"),
        ("payload.firmware", 2),
    ],
)
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
    ],
)
def test_a_call_that_has_no_equal_is_refused(layout: Layout, expression: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_query(layout, f"SELECT {expression} FROM silver.readings", 1)
    assert caught.value.error_id == "TIDE-QUERY-008"
    assert fix in caught.value.fix


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
    sql = (
        "SELECT silver.readings.amount + 1, gold.sites.amount + 1 FROM silver.readings "
        "JOIN gold.sites ON silver.readings.site = gold.sites.site"
    )
    assert headings(run_query(layout, sql, 5)) == ["silver.readings.amount + 1", "gold.sites.amount + 1"]
    joined = "FROM silver.readings JOIN gold.sites ON silver.readings.site = gold.sites.site"
    found = run_query(layout, f"SELECT -silver.readings.amount, -gold.sites.amount {joined}", 5)
    assert headings(found) == ["(- silver.readings.amount)", "(- gold.sites.amount)"]


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
