"""Sinks that shape the rows of a batch for themselves: several tables from one read, each row once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.backfill.row_origin import SinkOrigin
from tidemill.engine.classify import classify
from tidemill.engine.row_origin import find_sink_origin
from tidemill.engine.transform import Transform
from tidemill.errors import DataError, GateRefusedError, TidemillError, UsageError

ORDERS = {
    "files": {
        "path": "landing/orders",
        "format": "json",
        "schema": "id long, at timestamp, price double",
        "max_files_per_batch": 1,
    }
}
LATEST = """
from pyspark.sql import Window
from pyspark.sql import functions as F

def transform(orders):
    newest_first = Window.partitionBy("id").orderBy(F.col("at").desc())
    newest = orders.withColumn("place", F.row_number().over(newest_first)).where("place = 1")
    return newest.select("id", F.col("price").alias("newest_price"))
"""


def order(number: int, minute: int, price: float) -> dict[str, Any]:
    return {"id": number, "at": f"2024-01-01T00:{minute:02}:00Z", "price": price}


@pytest.fixture
def pipeline(lake: Lake) -> LakePipeline:
    """Return two batches, for a table of all orders and one of the newest price of each."""
    lake.land_rows("landing/orders/1.json", [order(1, 1, 10.0), order(1, 3, 30.0), order(1, 2, 20.0)])
    lake.land_rows("landing/orders/2.json", [order(1, 4, 40.0), order(2, 4, 5.0), order(2, 5, 6.0)])
    merge = {"table": "silver/orders", "mode": "merge", "key": ["id"]}
    return lake.pipeline(
        "orders",
        source=ORDERS,
        sinks=[
            {"delta": {"table": "bronze/orders", "mode": "merge", "key": ["id", "at"]}},
            {
                "delta": {
                    **merge,
                    "transform": lake.transform("latest", LATEST),
                    # `where` uses a column that only the sink's transform adds; the result has no such
                    # column.
                    "where": "newest_price > 6",
                }
            },
        ],
        run={"mode": "incremental"},
    )


def crash_after_commit(number: int) -> Any:
    seen = itertools.count(1)

    def crash(step: str) -> None:
        if step == "committed" and next(seen) == number:
            raise CrashedError(step)

    return crash


@pytest.mark.soak
def test_a_batch_that_crashes_between_its_tables_is_in_each_of_them_once(
    lake: Lake, pipeline: LakePipeline
) -> None:
    with pytest.raises(CrashedError):
        # The second batch is in the first table only.
        pipeline.run_incremental(crash_after_commit(3))
    pipeline.run_incremental()
    assert sorted((row["id"], row["price"]) for row in lake.rows("bronze/orders")) == [
        *((1, 10.0), (1, 20.0), (1, 30.0), (1, 40.0), (2, 5.0), (2, 6.0))
    ]
    assert lake.rows("silver/orders") == [{"id": 1, "newest_price": 40.0}]
    assert [c.entry.batch_id for c in lake.ledger("silver/orders") if c.entry] == [1, 0]


@pytest.mark.soak
def test_a_batch_is_finished_by_the_code_that_began_it_the_sinks_included(
    lake: Lake, pipeline: LakePipeline
) -> None:
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_after_commit(1))
    lake.transform("latest", LATEST.replace("desc()", "asc()"))
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    assert (refused.value.error_id, refused.value.facts["left"]) == ("TIDE-SINK-007", ["silver/orders"])
    lake.transform("latest", LATEST)
    pipeline.run_incremental()
    assert lake.rows("silver/orders") == [{"id": 1, "newest_price": 40.0}]


def refusal_of(lake: Lake, body: str) -> TidemillError:
    """Return the error of a refused transform of a sink, and check that nothing was written."""
    code = f"from pyspark.sql import functions as F\n\ndef transform(rows):\n    {body}\n"
    lake.land_rows("landing/orders/1.json", [order(1, 1, 10.0)])
    sink = {"table": "silver/orders", "transform": lake.transform("shape", code)}
    pipeline = lake.pipeline(
        "orders", source=ORDERS, sinks=[{"console": {}}, {"delta": sink}], run={"mode": "incremental"}
    )
    with pytest.raises(Exception) as failed:  # noqa: PT011  # any; the driver classifies it
        pipeline.run_incremental()
    assert lake.data_files("silver/orders") == []
    assert not list(pipeline.checkpoint.glob("commits/[0-9]*"))
    return classify(failed.value)


@pytest.mark.parametrize(
    ("body", "error_id", "reason"),
    [
        ("return rows.select('prize')", "TIDE-DATA-002", "UNRESOLVED_COLUMN"),
        ("return print(rows.columns)", "TIDE-DATA-002", "it returns NoneType"),
        (
            "if rows.columns:\n        raise RuntimeError('stop here')\n    return rows",
            "TIDE-DATA-002",
            "RuntimeError: stop here",
        ),
        # A function that runs a separate job handles single records.
        (
            "return rows.limit(len(rows.select(F.concat('id', F.lit('no')).cast('int')).collect()))",
            "TIDE-DATA-002",
            "[CAST_INVALID_INPUT]",
        ),
        (
            "return rows.select(F.raise_error(F.lit('no')).alias('x'))",
            "TIDE-DATA-003",
            "[USER_RAISED_EXCEPTION]",
        ),
    ],
)
def test_a_sinks_transform_that_cannot_be_applied_is_a_data_error_that_names_the_key(
    lake: Lake, body: str, error_id: str, reason: str
) -> None:
    error = refusal_of(lake, body)
    assert (type(error), error.error_id) == (DataError, error_id)
    assert reason in str(error.facts["reason"])
    if error_id == "TIDE-DATA-002":
        assert error.facts["key"] == "sinks[1].delta.transform"


def test_columns_that_depend_on_the_rows_are_refused(lake: Lake) -> None:
    error = refusal_of(lake, "return rows.groupBy('id').pivot('price').count()")
    assert (type(error), error.error_id) == (DataError, "TIDE-DATA-004")
    assert (error.facts["expected"], error.facts["key"]) == ("id int64", "sinks[1].delta.transform")


@pytest.mark.soak
def test_a_transform_that_looks_at_a_part_of_its_rows_leaves_state_and_rejected_records_whole(
    lake: Lake,
) -> None:
    lake.land("landing/orders/1.json", '{"id": 1, "at": "2024-01-01T00:01:00Z", "price": 1.0}\nbroken\n' * 3)
    code = "def transform(rows):\n    return rows.limit(1).join(rows.select('id').distinct(), 'id')\n"
    pipeline = lake.pipeline(
        "orders",
        source={"files": {**ORDERS["files"], "on_invalid": "quarantine"}},
        event_time={"column": "at", "watermark": "10 minutes", "max_ahead": "off"},
        transform=lake.transform(
            "counts", "def transform(rows):\n    return rows.groupBy('id', 'at').count()\n"
        ),
        sinks=[
            {
                "delta": {
                    "table": "silver/orders",
                    "mode": "merge",
                    "key": ["id"],
                    "transform": lake.transform("part", code),
                }
            }
        ],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    assert [(row["id"], row["count"]) for row in lake.rows("silver/orders")] == [(1, 3)]
    assert len(lake.quarantined("orders")) == 3


def newest(rows: DataFrame) -> DataFrame:
    return rows.join(rows.groupBy("id").agg(F.max("at").alias("at")), ["id", "at"])


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (lambda rows: rows.withWatermark("at", "1 minute").dropDuplicates(["id"]), "repetitions"),
        (lambda rows: rows.dropDuplicates(["id", "at"]), "repetitions"),
        (lambda rows: rows.groupBy(F.window("at", "5 minutes")).count(), "aggregates"),
        (newest, "twice"),
        (lambda rows: rows.limit(1), "Limit"),
        (lambda rows: rows.select("id", F.expr("max(at) over (partition by id)")), "Window"),
        (lambda rows: rows.limit(rows.count()), "cannot be analysed"),
        (lambda rows: rows.sparkSession.range(3), "not made of the result's"),
    ],
    ids=["dedup", "dedup_by_time", "windows", "self_join", "limit", "newest", "action", "other_rows"],
)
def test_a_transform_that_depends_on_the_batch_is_not_taken_for_one_that_works_row_by_row(
    lake: Lake, spark: SparkSession, transform: Transform, reason: str
) -> None:
    (lake.root / "landing").mkdir(parents=True)
    stream = spark.readStream.schema("id long, at timestamp, kafka_offset long").json(
        str(lake.root / "landing")
    )
    assert reason in find_sink_origin(stream, transform).reason
    kept = find_sink_origin(
        stream, lambda rows: rows.where("id > 1").selectExpr("at + interval 1 hour", "id as i")
    )
    assert kept == SinkOrigin(columns={"id": "i"})


COUNTS = """
from pyspark.sql import functions as F

def transform(orders):
    return orders.groupBy(F.window("at", "5 minutes")).agg(F.count("*").alias("orders"))
"""
FLAT = "SELECT window AS w, orders AS many FROM result WHERE orders > 1"


@pytest.mark.soak
def test_a_backfill_writes_what_each_sink_makes_of_the_range(lake: Lake) -> None:
    for number, minutes in enumerate(([1, 2, 3], [6, 7, 11], [12, 13, 50])):
        lake.land_rows(f"landing/orders/{number}.json", [order(m, m, 1.0) for m in minutes])
    (lake.folder / "spark_apps/transforms/flat.sql").write_text(FLAT)
    pipeline = lake.pipeline(
        "windows",
        source=ORDERS,
        event_time={"column": "at", "watermark": "1 minute"},
        transform=lake.transform("counts", COUNTS),
        sinks=[
            {"delta": {"table": "silver/many", "transform": "flat.sql"}},
            {"delta": {"table": "silver/windows"}},
        ],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    before = {table: windows_of(lake, table) for table in ("silver/many", "silver/windows")}
    assert before == {"silver/many": [(0, 3), (5, 2), (10, 3)], "silver/windows": [(0, 3), (5, 2), (10, 3)]}
    for table, column in (("silver/many", "w"), ("silver/windows", "window")):
        lake.spark.sql(f"DELETE FROM delta.`{lake.root}/tables/{table}` WHERE minute({column}.start) = 5")
    pipeline.backfill("2024-01-01T00:05:00Z", "2024-01-01T00:10:00Z")
    assert {table: windows_of(lake, table) for table in before} == before


def windows_of(lake: Lake, table: str) -> list[tuple[int, int]]:
    rows = (list(row.values()) for row in lake.rows(table))
    return sorted((window["start"].minute, count) for window, count in rows)


def test_a_backfill_through_a_transform_that_needs_the_batch_is_refused(pipeline: LakePipeline) -> None:
    with pytest.raises(UsageError) as refused:
        pipeline.plan("2024-01-01", "2024-01-02")
    assert refused.value.error_id == "TIDE-BACK-011"
