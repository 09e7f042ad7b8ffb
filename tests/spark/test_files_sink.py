"""Files in a folder of one pipeline: each batch once for who reads Spark's log, whatever crashes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.errors import DataError, GateRefusedError
from tidemill.ledger.files_log import read_files_log
from tidemill.ledger.files_rows import declared_folders
from tidemill.ledger.table_query import run_query
from tidemill.spec.project_folder import Project

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ORDERS = {
    "files": {
        "path": "landing/orders",
        "format": "json",
        "schema": "id long, day date, item struct<name string>",
        "max_files_per_batch": 1,
    }
}
FLAT = "SELECT id, item.name AS name, day FROM result"


@pytest.fixture
def exports(lake: Lake) -> Path:
    """Return three batches to come."""
    (lake.folder / "spark_apps/transforms/flat.sql").write_text(FLAT)
    for number in (1, 2, 3):
        land(lake, number)
    return lake.root / "exports/orders"


def land(lake: Lake, number: int) -> None:
    row = {"id": number, "day": f"2024-01-{number:02}", "item": {"name": "tea"}}
    lake.land_rows(f"landing/orders/{number}.json", [row])


def pipeline_of(lake: Lake, name: str = "orders", kind: str = "parquet", **keys: Any) -> LakePipeline:
    sink = {
        "path": "exports/orders",
        "format": kind,
        "transform": "flat.sql",
        "partition_by": ["day"],
        **keys,
    }
    return lake.pipeline(name, source=ORDERS, sinks=[{"files": sink}], run={"mode": "incremental"})


def ids(lake: Lake, folder: Path, kind: str = "parquet") -> list[int]:
    frame = lake.spark.read.format(kind).load(str(folder))
    return sorted(int(row["id"]) for row in frame.select("id").collect())


def crash_at(batch: int) -> Any:
    named = iter(range(100))

    def crash(step: str) -> None:
        if step == "files_named" and next(named) == batch:
            raise CrashedError(step)

    return crash


def refusal_of(pipeline: LakePipeline) -> GateRefusedError:
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    return refused.value


def test_a_batch_that_is_repeated_is_in_the_folder_once_and_a_date_prunes_files(
    lake: Lake, exports: Path
) -> None:
    pipeline = pipeline_of(lake)
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at(1))
    assert ids(lake, exports) == [1, 2]
    pipeline.run_incremental()
    assert ids(lake, exports) == [1, 2, 3]
    recent = lake.spark.read.parquet(str(exports)).where("day >= date'2024-01-03' - interval 1 day")
    assert [row["name"] for row in recent.collect()] == ["tea", "tea"]
    plan = recent._jdf.queryExecution().executedPlan()
    assert "PartitionFilters: [isnotnull(day" in plan.toString()
    assert plan.collectLeaves().apply(0).metrics().apply("numFiles").value() == 2


def test_what_a_killed_attempt_left_is_seen_only_by_who_lists_the_files(lake: Lake, exports: Path) -> None:
    pipeline_of(lake).run_incremental()
    (written,) = (exports / "day=2024-01-01").glob("*.parquet")
    # Spark names files at random, and names them in its log once the whole batch is written.
    (written.with_name(f"left-{written.name}")).write_bytes(written.read_bytes())
    assert ids(lake, exports) == [1, 2, 3]
    assert sorted(ds.dataset(exports, partitioning="hive").to_table()["id"].to_pylist()) == [1, 1, 2, 3]
    land(lake, 4)
    pipeline_of(lake).run_incremental()
    assert ids(lake, exports) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["json", "csv", "orc"])
def test_every_format_is_written(lake: Lake, exports: Path, kind: str) -> None:
    options = {"header": True} if kind == "csv" else {}
    pipeline_of(lake, kind=kind, options=options).run_incremental()
    frame = lake.spark.read.options(**options).format(kind).load(str(exports))
    assert sorted((int(r["id"]), r["name"], r["day"].day) for r in frame.collect()) == [
        *((1, "tea", 1), (2, "tea", 2), (3, "tea", 3))
    ]


def test_a_folder_that_does_not_fit_the_checkpoint_is_refused_before_anything_is_written(
    lake: Lake, exports: Path
) -> None:
    pipeline = pipeline_of(lake)
    pipeline.run_incremental()
    other = refusal_of(pipeline_of(lake, "others"))
    assert (other.error_id, other.facts["owner"]) == ("TIDE-SINK-008", f"orders of {lake.root.resolve()}")
    assert refusal_of(pipeline_of(lake, partition_by=[])).error_id == "TIDE-SINK-009"
    pipeline_of(lake)
    land(lake, 4)
    for file in (pipeline.checkpoint / "commits").iterdir():
        if file.name.strip(".").startswith("2"):
            file.rename(pipeline.checkpoint / file.name)
    pipeline.run_incremental()
    assert ids(lake, exports) == [1, 2, 3, 4]
    for file in (exports / "_spark_metadata").iterdir():
        file.unlink()
    behind = refusal_of(pipeline)
    assert (behind.error_id, behind.facts["log_batch"]) == ("TIDE-SINK-011", -1)


def test_rows_that_a_format_cannot_hold_are_refused(lake: Lake, exports: Path) -> None:
    (lake.folder / "spark_apps/transforms/flat.sql").write_text("SELECT id, item, day FROM result")
    with pytest.raises(DataError) as refused:
        pipeline_of(lake, kind="csv").run_incremental()
    assert refused.value.error_id == "TIDE-SINK-012"
    assert not exports.exists() or not list(exports.glob("day=*"))
    with pytest.raises(DataError) as missing:
        pipeline_of(lake, partition_by=["date"]).run_incremental()
    assert missing.value.facts["reason"] == "there is no column date to partition by"


@pytest.mark.soak
def test_a_folder_that_begins_later_is_read_as_a_whole(lake: Lake, exports: Path) -> None:
    """Spark wants every entry of its log; here also beyond the one in which it puts ten together."""
    pipeline_of(lake).run_incremental()
    other = pipeline_of(lake, path="exports/again")
    land(lake, 4)
    other.run_incremental()
    assert ids(lake, lake.root / "exports/again") == [4]
    for number in range(5, 14):
        land(lake, number)
    other.run_incremental()
    land(lake, 14)
    other.run_incremental()
    assert ids(lake, lake.root / "exports/again") == list(range(4, 15))
    assert ids(lake, exports) == [1, 2, 3]


def test_a_folder_that_a_killed_driver_has_claimed_begins_all_the_same(lake: Lake, exports: Path) -> None:
    pipeline_of(lake).run_incremental()
    other = pipeline_of(lake, path="exports/again")
    land(lake, 4)
    with pytest.raises(CrashedError):
        other.run_incremental(crash_at(0))
    # Remove entries, as if the run had been killed while it wrote the log.
    log = lake.root / "exports/again/_spark_metadata"
    for name in ("1", "2", "3", ".1.crc", ".2.crc", ".3.crc"):
        (log / name).unlink(missing_ok=True)
    other.run_incremental()
    assert ids(lake, lake.root / "exports/again") == [4]


def test_columns_that_readers_do_not_tell_apart_are_refused(lake: Lake, exports: Path) -> None:
    (lake.folder / "spark_apps/transforms/flat.sql").write_text("SELECT id, id AS ID, day FROM result")
    with pytest.raises(DataError) as refused:
        pipeline_of(lake).run_incremental()
    assert refused.value.error_id == "TIDE-SINK-012"
    assert "two columns are called id" in str(refused.value.facts["reason"])


ODD = "SELECT id, concat(item.name, ' /ä%:=', id) AS name, timestamp_micros(id) AS at, day FROM result"


@pytest.mark.parametrize("kind", ["parquet", "orc", "json", "csv"])
def test_a_query_without_a_jvm_reads_what_spark_wrote(lake: Lake, exports: Path, kind: str) -> None:
    (lake.folder / "spark_apps/transforms/flat.sql").write_text(ODD)
    lake.land_rows("landing/orders/4.json", [{"id": 4, "day": None, "item": {"name": "\"a\\, 'b"}}])
    pipeline = pipeline_of(lake, kind=kind, partition_by=["day", "name"])
    pipeline.run_incremental()
    folders = declared_folders(pipeline.resolved.layout, Project(lake.folder))
    sql = 'SELECT id, name, at, day FROM files."exports/orders" ORDER BY id'
    found = run_query(pipeline.resolved.layout, sql, 10, others=folders)
    expected = [
        {"id": n, "name": f"tea /ä%:={n}", "at": EPOCH + timedelta(microseconds=n), "day": date(2024, 1, n)}
        for n in (1, 2, 3)
    ]
    if kind in ("json", "csv"):
        # Spark writes milliseconds there.
        expected = [{**row, "at": EPOCH} for row in expected]
    *rows, last = found.rows
    assert rows == expected
    assert (last["id"], last["name"], last["day"]) == (4, "\"a\\, 'b /ä%:=4", None)
    log = read_files_log(pipeline.resolved.layout, "exports/orders")
    assert log is not None
    assert [(commit.batch_id, len(commit.files)) for commit in log.commits] == [
        (3, 1),
        (2, 1),
        (1, 1),
        (0, 1),
    ]
    assert log.claim_of(3) == log.claims[0]
