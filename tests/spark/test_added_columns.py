"""A table takes new columns with the first batch that has them, in that batch's commit, or refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from tests.support.commits import commit_of
from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import rewind
from tests.support.writer_cases import CrashedError, WriterCase, crash_at
from tidemill.errors import DataError
from tidemill.ledger.read import read_ledger
from tidemill.sinks.range_writer import RangeTarget, prepare_table, replace_rows
from tidemill.sinks.table_columns import table_columns
from tidemill.sinks.table_log import TableLog
from tidemill.spec.delta_sink import DeltaSink

OLD = (
    "id long, place struct<site:string>, parts array<struct<size:int>>, tags map<string, struct<on:boolean>>"
)
# New columns are before others at each depth. The table gets them at the end.
NEW = (
    "zone string, id long, place struct<floor:int, site:string>, "
    "parts array<struct<kind:string, size:int>>, tags map<string, struct<by:string, on:boolean>>"
)
ADDED = ("parts[].kind", "place.floor", "tags[].by", "zone")
OLD_ROW = (1, ("a",), [(7,)], {"x": (True,)})
NEW_ROW = ("north", 2, (4, "b"), [("bolt", 8)], {"y": ("ann", False)})

OLD_READ = {
    "id": 1,
    "place": {"site": "a", "floor": None},
    "parts": [{"size": 7, "kind": None}],
    "tags": {"x": {"on": True, "by": None}},
    "zone": None,
}
NEW_READ = {
    "id": 2,
    "place": {"site": "b", "floor": 4},
    "parts": [{"size": 8, "kind": "bolt"}],
    "tags": {"y": {"on": False, "by": "ann"}},
    "zone": "north",
}


def evolving(case: WriterCase, **declaration: Any) -> WriterCase:
    case.declaration.update(declaration, schema_evolution="add_columns")
    return case


def added(case: WriterCase) -> dict[int, tuple[str, ...] | None]:
    """Return columns that each commit added, by its version."""
    return {c.version: c.entry.columns_added for c in read_ledger(str(case.path)) if c.entry is not None}


@pytest.mark.parametrize(
    ("name", "step"),
    [
        pytest.param("arrow", "files_written", marks=pytest.mark.soak),
        ("arrow", "committed"),
        pytest.param("spark", "committed", marks=pytest.mark.soak),
    ],
)
def test_columns_and_rows_come_in_one_commit_whatever_crashes(
    tmp_path: Path, spark: SparkSession, name: str, step: str
) -> None:
    case = evolving(WriterCase(name, tmp_path / "orders", spark))
    case.writer(columns=OLD).write(case.frame(OLD_ROW, columns=OLD), commit_of(0))
    version, frame = case.table.version(), case.frame(NEW_ROW, columns=NEW)
    with pytest.raises(CrashedError):
        case.writer(crash_at(step), NEW).write(frame, commit_of(1))
    assert case.table.version() == version + (step == "committed")
    writer = case.writer(columns=NEW)
    writer.write(frame, commit_of(1))
    assert added(case) == {version: None, version + 1: ADDED}
    writer.write(case.frame(columns=NEW), commit_of(2))
    assert added(case)[version + 2] is None
    assert sorted(case.rows(), key=lambda row: row["id"]) == [OLD_READ, NEW_READ]
    # Read the rows without a JVM, with DataFusion.
    read = (
        QueryBuilder().register("t", case.table).execute("SELECT id, place, parts, zone FROM t ORDER BY id")
    )
    rows = pa.RecordBatchReader.from_stream(read).read_all().to_pylist()
    assert [row["place"] for row in rows] == [OLD_READ["place"], NEW_READ["place"]]
    assert [row["parts"] for row in rows] == [OLD_READ["parts"], NEW_READ["parts"]]


def test_a_driver_of_before_writes_nothing_once_the_table_has_more_columns(case: WriterCase) -> None:
    case = evolving(case)
    zombie = case.writer()
    zombie.write(case.frame((1, "a")), commit_of(0))
    columns = "id long, name string, zone string"
    # It has looked at the table, and made its files ready, when the newer driver writes.
    staged = zombie.writer.stage(case.frame((2, "b")))
    case.writer(columns=columns).write(case.frame((2, "b", "north"), columns=columns), commit_of(1))
    assert not staged(commit_of(1)).committed
    with pytest.raises(DataError) as refused:
        zombie.writer.check()
    assert refused.value.facts["unknown_in_table"] == ["zone"]
    assert [(row["id"], row["zone"]) for row in case.rows()] == [(1, None), (2, "north")]


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ({"mode": "merge", "key": ["id"]}, [(1, "c", "north"), (2, "b", None), (3, "d", "south")]),
        pytest.param({"mode": "replace"}, [(1, "c", "north"), (3, "d", "south")], marks=pytest.mark.soak),
        ({"writer": "arrow"}, [(1, "a", None), (1, "c", "north"), (2, "b", None), (3, "d", "south")]),
        pytest.param(
            {"partition_by": ["name"]},
            [(1, "a", None), (1, "c", "north"), (2, "b", None), (3, "d", "south")],
            marks=pytest.mark.soak,
        ),
        pytest.param(
            {"cluster_by": ["id"]},
            [(1, "a", None), (1, "c", "north"), (2, "b", None), (3, "d", "south")],
            marks=pytest.mark.soak,
        ),
    ],
    ids=["merge", "replace", "arrow", "partitioned", "clustered"],
)
def test_every_kind_of_table_takes_columns(
    spark_case: WriterCase, declaration: dict[str, Any], expected: list[tuple[Any, ...]]
) -> None:
    case = evolving(spark_case, **declaration)
    case.writer().write(case.frame((1, "a"), (2, "b")), commit_of(0))
    columns = "id long, name string, zone string"
    # A batch without rows adds them as well: the ledger says when, whatever comes.
    case.writer(columns=columns).write(case.frame(columns=columns), commit_of(1))
    rows = [(1, "c", "north"), (3, "d", "south")]
    case.writer(columns=columns).write(case.frame(*rows, columns=columns), commit_of(2))
    assert list(added(case).values()) == [None, ("zone",), None]
    assert sorted((row["id"], row["name"], row["zone"]) for row in case.rows()) == sorted(expected)


@pytest.mark.soak
def test_a_backfill_adds_the_columns_of_its_rows(spark: SparkSession, spark_case: WriterCase) -> None:
    case = evolving(spark_case)
    case.writer().write(case.frame((1, "a"), (2, "b")), commit_of(0))
    rows = case.frame((2, "c", "north"), columns="id long, name string, zone string")
    sink = DeltaSink.model_validate({"table": "bronze/orders", **case.declaration})
    target = RangeTarget(TableLog(str(case.path)), table_columns(rows.schema), sink, lambda: None)  # type: ignore[arg-type,return-value]
    prepare_table(rows, target)
    entry = commit_of(1).entry.model_copy(update={"mode": "backfill", "batch_id": None, "generation": None})
    for expected in [("zone",), None]:
        written = replace_rows(rows, target, entry, "id >= 2", lambda: None)
        assert written.committed
        assert added(case)[case.table.version()] == expected
    assert [(row["id"], row["name"], row["zone"]) for row in case.rows()] == [
        (1, "a", None),
        (2, "c", "north"),
    ]


PLAIN = 'def transform(orders):\n    return orders.select("id", "at")\n'
MORE = 'def transform(orders):\n    return orders.select("id", "at", "zone")\n'
WRONG = 'def transform(orders):\n    return orders.selectExpr("CAST(id AS string) AS id", "at", "zone")\n'


def orders(lake: Lake, code: str) -> LakePipeline:
    """Return two tables, of which the second takes no column."""
    return lake.pipeline(
        "orders",
        source={
            "files": {
                "path": "landing/orders",
                "format": "json",
                "schema": "id long, at timestamp, zone string",
                "max_files_per_batch": 1,
            }
        },
        transform=lake.transform("orders", code),
        sinks=[
            {"delta": {"table": "bronze/orders", "schema_evolution": "add_columns"}},
            {
                "delta": {
                    "table": "silver/orders",
                    "transform": lake.transform("narrow", 'def transform(r):\n    return r.select("id")\n'),
                }
            },
        ],
        run={"mode": "incremental"},
    )


def land(lake: Lake, *numbers: int) -> None:
    for number in numbers:
        row = {"id": number, "at": f"2024-01-01T0{number}:00:00Z", "zone": f"z{number}"}
        lake.land_rows(f"landing/orders/{number}.json", [row])


def copies(lake: Lake) -> LakePipeline:
    """Return a pipeline that reads the first table."""
    return lake.pipeline(
        "copies",
        source={"delta": {"table": "bronze/orders"}},
        sinks=[{"delta": {"table": "gold/orders", "schema_evolution": "add_columns"}}],
        run={"mode": "incremental"},
    )


def zones(lake: Lake, table: str = "bronze/orders") -> list[tuple[int, str | None]]:
    return sorted((row["id"], row.get("zone")) for row in lake.rows(table))


@pytest.mark.soak
def test_a_pipeline_grows_is_rewound_and_grows_again_and_refuses_what_does_not_fit(lake: Lake) -> None:
    land(lake, 1, 2)
    orders(lake, PLAIN).run_incremental()
    reader = copies(lake)
    reader.run_incremental()
    # Refused before the first batch is planned: neither table has a new commit, nor has the checkpoint.
    land(lake, 3, 4)
    wrong = orders(lake, WRONG)
    files = {path for path in lake.root.rglob("*") if "tables" in path.parts or "offsets" in path.parts}
    with pytest.raises(DataError) as refused:
        wrong.run_incremental()
    assert refused.value.error_id == "TIDE-SINK-001"
    assert list(refused.value.facts["other_type"]) == ["id"]
    assert files == {p for p in lake.root.rglob("*") if "tables" in p.parts or "offsets" in p.parts}
    # Killed between the two tables: the first one has the batch, and its columns.
    pipeline = orders(lake, MORE)
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("committed"))
    assert zones(lake) == [(1, None), (2, None), (3, "z3")]
    pipeline.run_incremental()
    grown = [(1, None), (2, None), (3, "z3"), (4, "z4")]
    assert zones(lake) == grown
    # A stream that reads the table continues, with its new column.
    reader.run_incremental()
    assert zones(lake, "gold/orders") == grown
    # Rewind to before the columns were added. The table loses them and gets them again.
    rewind(pipeline, 1)
    assert "zone" not in [
        field.name for field in DeltaTable(str(lake.root / "tables/bronze/orders")).schema().fields
    ]
    pipeline.run_incremental()
    assert zones(lake) == grown
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2, 3, 4]
    ledger = [c.entry for c in lake.ledger("bronze/orders") if c.entry is not None]
    assert [entry.batch_id for entry in ledger if entry.columns_added] == [2, 2]
