"""`plan --spark` and every driver refuse a sink that cannot take the rows, before a query starts."""

from __future__ import annotations

from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import PySparkException

from tests.support.lake import Lake, LakePipeline
from tidemill.engine.analyse import analyse
from tidemill.errors import TidemillError

COLUMNS = "id long, day date, paid boolean, item struct<name: string>, tags map<string, string>"
ORDERS = {"files": {"path": "landing/orders", "format": "json", "schema": COLUMNS}}
ROW = {"id": 1, "day": "2026-01-31", "paid": True, "item": {"name": "tea"}, "tags": {"a": "b"}}
TABLE = "bronze/orders"


def pipeline_of(lake: Lake, *sinks: dict[str, Any], transform: str = "SELECT * FROM source") -> LakePipeline:
    (lake.folder / "spark_apps/transforms/orders.sql").write_text(transform)
    run = {"mode": "incremental"}
    return lake.pipeline("orders", source=ORDERS, transform="orders.sql", sinks=list(sinks), run=run)


def delta(**keys: Any) -> dict[str, Any]:
    return {"delta": {"table": TABLE, **keys}}


def files(**keys: Any) -> dict[str, Any]:
    return {"files": {"path": "exports/orders", "format": "parquet", **keys}}


def written(lake: Lake) -> list[str]:
    """Return data files of all tables and folders."""
    files = [file for kind in ("*.parquet", "*.csv") for file in lake.root.rglob(kind)]
    return [str(file) for file in files if "_delta_log" not in file.parts]


# A sink, the error id, and a word of the finding.
WRONG = {
    "struct to csv": (files(format="csv"), "TIDE-SINK-012", "CSV"),
    "partition of files": (files(partition_by=["month"]), "TIDE-SINK-012", "month"),
    "partition": (delta(partition_by=["dya"]), "TIDE-SINK-024", "did you mean day?"),
    "key": (delta(mode="merge", key=["order_id"]), "TIDE-SINK-024", "order_id"),
    "cluster": (delta(cluster_by=["item.nmae"]), "TIDE-SINK-024", "item.nmae"),
    "partition of a struct": (delta(partition_by=["item"]), "TIDE-SINK-029", "one plain value"),
    "cluster by a boolean": (delta(cluster_by=["paid"]), "TIDE-SINK-029", "no statistics"),
    "cluster by a map": (delta(cluster_by=["tags"]), "TIDE-SINK-029", "no statistics"),
    "key of a map": (delta(mode="merge", key=["tags"]), "TIDE-SINK-029", "compare maps"),
    "condition": (delta(where="price > 1"), "TIDE-SINK-030", "price"),
    "type of a condition": (delta(where="cast(id AS strin) = '1'"), "TIDE-SINK-030", "STRIN"),
    "number as a condition": (delta(where="id + 1"), "TIDE-SINK-030", "id + 1"),
    "expectation": (delta(expectations={"x": {"expect": "price > 1"}}), "TIDE-EXP-002", "price"),
    "sequence": (
        delta(mode="scd1", key=["id"], cdc={"sequence_by": "lsn"}),
        "TIDE-CDC-001",
        "lsn",
    ),
    "deletion": (
        delta(mode="scd1", key=["id"], cdc={"sequence_by": "day", "apply_as_deletes": "op = 'd'"}),
        "TIDE-SINK-030",
        "op",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_sink_that_cannot_take_the_rows_is_refused_by_a_plan_and_by_a_driver(lake: Lake, case: str) -> None:
    sink, error_id, word = WRONG[case]
    lake.land_rows("landing/orders/1.json", [ROW])
    pipeline = pipeline_of(lake, sink)
    (found,) = analyse(lake.spark, pipeline.resolved)
    assert (found["id"], found["warns"]) == (error_id, False)
    assert word in str(found)
    with pytest.raises(TidemillError) as refused:
        pipeline.run_incremental()
    assert refused.value.error_id == error_id
    assert written(lake) == []


def test_a_type_that_differs_from_the_existing_table_is_found(lake: Lake) -> None:
    lake.land_rows("landing/orders/1.json", [ROW])
    pipeline_of(lake, delta(), transform="SELECT id, day FROM source").run_incremental()
    changed = pipeline_of(lake, delta(), transform="SELECT string(id) AS id, day FROM source")
    (found,) = analyse(lake.spark, changed.resolved)
    assert found["id"] == "TIDE-SINK-001"
    assert found["facts"]["other_type"].startswith("{'id': ")
    same = pipeline_of(lake, delta(), transform="SELECT id, day FROM source")
    assert analyse(lake.spark, same.resolved) == []


def test_every_sink_is_checked_and_nothing_is_written(lake: Lake) -> None:
    lake.land_rows("landing/orders/1.json", [ROW])
    pipeline = pipeline_of(
        lake,
        delta(partition_by=["day"]),
        files(format="csv"),
        {"console": {"where": "price > 1"}},
        {"delta": {"table": "silver/orders", "mode": "append", "partition_by": ["month"]}},
    )
    found = analyse(lake.spark, pipeline.resolved)
    assert [one["id"] for one in found] == ["TIDE-SINK-012", "TIDE-SINK-030", "TIDE-SINK-024"]
    assert written(lake) == []
    # With valid sinks, the rows are written.
    pipeline_of(lake, delta(partition_by=["day"]), files()).run_incremental()
    assert len(written(lake)) == 2


@pytest.mark.parametrize(
    ("layout", "column"),
    [("partitionedBy", "item"), ("clusterBy", "paid"), ("clusterBy", "tags"), ("clusterBy", "bytes")],
)
def test_delta_itself_refuses_the_columns_that_are_refused_here(lake: Lake, layout: str, column: str) -> None:
    builder = DeltaTable.create(lake.spark).tableName(f"delta.`{lake.root}/probe`")
    for field in lake.spark.createDataFrame([], f"{COLUMNS}, bytes binary").schema:
        builder = builder.addColumn(field.name, field.dataType)
    with pytest.raises(PySparkException):
        getattr(builder, layout)(column).execute()


def test_delta_lays_out_a_table_by_the_types_that_are_allowed_here(lake: Lake) -> None:
    lake.land_rows("landing/orders/1.json", [ROW])
    for number, keys in enumerate(({"partition_by": ["paid"]}, {"cluster_by": ["item.name", "day"]})):
        name = f"orders_{number}"
        sink = {"delta": {"table": f"bronze/{name}", **keys}}
        lake.pipeline(name, source=ORDERS, sinks=[sink], run={"mode": "incremental"}).run_incremental()
        assert len(written(lake)) == number + 1
