"""`tidemill query`: a SELECT over the platform's tables, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.command_line import CommandLine
from tests.support.conf_project import ENVIRONMENT, ConfProject


@pytest.fixture
def tables(project: ConfProject) -> ConfProject:
    layout = project.load().layout
    orders = {
        "id": list(range(5)),
        "customer": ["a", "b", "a", "c", "silver.customers"],
        "at": [datetime(2026, 1, 1, n, tzinfo=UTC) for n in range(5)],
    }
    write_deltalake(layout.table("bronze/orders"), pa.table(orders))
    write_deltalake(
        layout.table("silver/customers"), pa.table({"customer": ["a", "b"], "name": ["Ann", "Bo"]})
    )
    write_deltalake(
        layout.table("silver/customers"), pa.table({"customer": ["c"], "name": ["Cy"]}), mode="append"
    )
    write_deltalake(layout.quarantine("orders"), pa.table({"reason": ["not JSON"]}))
    write_deltalake(layout.late("orders"), pa.table({"reason": ["behind_watermark:at"]}))
    return project


def test_tables_are_joined_and_the_rows_shown_with_the_versions(
    tidemill: CommandLine, tables: ConfProject
) -> None:
    sql = """
        -- bronze.nothing is only said
        SELECT name, count(*) AS orders
        FROM bronze.orders JOIN silver.customers USING (customer) GROUP BY name ORDER BY name
    """
    assert tidemill.json("query", sql) == [
        {"name": "Ann", "orders": 2},
        {"name": "Bo", "orders": 1},
        {"name": "Cy", "orders": 1},
    ]
    assert tidemill("query", sql, "--limit", "2") == 0
    lines = tidemill.out.splitlines()
    assert [line.split() for line in lines[:4]] == [["name", "orders"], [lines[1]], ["Ann", "2"], ["Bo", "1"]]
    assert lines[-1] == "2 rows of bronze.orders v0, silver.customers v1; there are more, see --limit 2"


@pytest.mark.parametrize(("sql", "rows"), [("SELECT 1 AS one", 1), ("SHOW TABLES IN silver", 1)])
def test_a_query_of_no_table_names_none_in_its_last_line(
    tidemill: CommandLine, tables: ConfProject, sql: str, rows: int
) -> None:
    assert tidemill("query", sql) == 0, tidemill.err
    assert tidemill.out.splitlines()[-1] == f"{rows} rows"


def test_a_text_that_looks_like_a_table_is_a_text(tidemill: CommandLine, tables: ConfProject) -> None:
    rows = tidemill.json("query", "SELECT id, at FROM bronze.orders o WHERE o.customer = 'silver.customers'")
    assert rows == [{"id": 4, "at": "2026-01-01T04:00:00+00:00"}]


def test_a_table_has_its_name_in_the_catalog_too(tidemill: CommandLine, tables: ConfProject) -> None:
    sql = """
        SELECT q.reason, c.name, 'lake.silver.customers' AS said
        FROM lake.quarantine.orders q CROSS JOIN silver.customers c WHERE c.customer = 'a'
    """
    # An undeclared catalog has no tables.
    assert tidemill("query", sql) == 1
    assert "TIDE-QUERY-003" in tidemill.err
    tables.write("conf/environments/local.yaml", f"{ENVIRONMENT}catalog: lake\n")
    row = {"reason": "not JSON", "name": "Ann", "said": "lake.silver.customers"}
    assert tidemill.json("query", sql) == [row]
    assert tidemill("query", sql) == 0
    assert tidemill.out.splitlines()[-1] == "1 rows of lake.quarantine.orders v0, lake.silver.customers v1"
    assert tidemill("query", "SELECT * FROM lake.silver.customer") == 2
    assert "TIDE-QUERY-002" in tidemill.err


def test_columns_of_one_name_are_refused(tidemill: CommandLine, tables: ConfProject) -> None:
    sql = "SELECT a.customer, b.customer FROM bronze.orders a CROSS JOIN silver.customers b"
    assert tidemill("query", sql) == 2
    assert "TIDE-QUERY-004" in tidemill.err


def test_every_type_is_printed(tidemill: CommandLine, tables: ConfProject) -> None:
    sql = "SELECT x'ff41' b, DATE '2026-01-02' d, CAST(1.50 AS DECIMAL(9, 2)) n, TIME '01:02:03' t"
    assert tidemill.json("query", sql) == [{"b": "\\xffA", "d": "2026-01-02", "n": "1.50", "t": "01:02:03"}]
    sql = "SELECT CAST('NaN' AS DOUBLE) x, CAST('-inf' AS DOUBLE) y"
    assert tidemill.json("query", sql) == [{"x": "nan", "y": "-inf"}]


def test_structs_times_and_headings_are_printed_as_a_person_reads_them(
    tidemill: CommandLine, tables: ConfProject
) -> None:
    at = datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
    row = {
        "window": {"start": at, "end": None},
        "tags": ["a", None],
        "counts": [("x", 1)],
        "raw": b"A\xff",
        "day": at.date(),
    }
    types = {
        "window": pa.struct({"start": pa.timestamp("us", "UTC"), "end": pa.timestamp("us", "UTC")}),
        "tags": pa.list_(pa.string()),
        "counts": pa.map_(pa.string(), pa.int64()),
        "raw": pa.binary(),
        "day": pa.date32(),
    }
    layout = tables.load().layout
    write_deltalake(layout.table("gold/windows"), pa.Table.from_pylist([row], pa.schema(types)))
    assert tidemill("query", 'SELECT *, 1 AS "[bold]" FROM gold.windows') == 0, tidemill.err
    headings, _, values, _ = tidemill.out.splitlines()
    assert headings.split() == ["window", "tags", "counts", "raw", "day", "[bold]"]
    assert values.strip().split("   ") == [
        "{start: 2026-01-01 00:00:00.25, end: null}",
        "[a, null]",
        "{x -> 1}",
        "A\\xff",
        "2026-01-01",
        "1",
    ]


def test_records_that_were_set_aside_are_tables(tidemill: CommandLine, tables: ConfProject) -> None:
    sql = "SELECT q.reason, l.reason AS late FROM quarantine.orders q CROSS JOIN late.orders l"
    assert tidemill.json("query", sql) == [{"reason": "not JSON", "late": "behind_watermark:at"}]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO bronze.orders SELECT * FROM bronze.orders",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/etc/hostname'",
        "SET datafusion.execution.batch_size = 1",
        "EXPLAIN ANALYZE SELECT 1",
        "",
        "/* SELECT 1 */",
    ],
)
def test_what_is_no_query_is_refused(
    tidemill: CommandLine, tables: ConfProject, tmp_path: Path, sql: str
) -> None:
    assert tidemill("query", sql.format(folder=tmp_path)) == 2
    assert "TIDE-QUERY-001" in tidemill.err
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("sql", "error", "says"),
    [
        ("SELECT 1 FROM bronze.order", "TIDE-QUERY-002", "did you mean bronze.orders?"),
        ("SELECT 1 FROM gold.other_things_altogether", "TIDE-QUERY-002", "quarantine.orders"),
        ("SELECT nmae FROM silver.customers", "TIDE-QUERY-003", "nmae"),
        ("SELECT 1 FROM nowhere", "TIDE-QUERY-003", "nowhere"),
        ("SELECT 1; SELECT 2", "TIDE-QUERY-003", "single SQL statement"),
        ("WITH d AS (SELECT 1) INSERT INTO bronze.orders SELECT * FROM d", "TIDE-QUERY-003", ""),
        ("SELECT arrow_cast(customer, 'Int64') FROM bronze.orders", "TIDE-QUERY-003", "Cast error"),
    ],
)
def test_what_cannot_be_run_is_explained(
    tidemill: CommandLine, tables: ConfProject, sql: str, error: str, says: str
) -> None:
    assert tidemill("query", sql) in (1, 2)
    assert error in tidemill.err
    assert says in tidemill.err
