"""Checkpoint and table that do not belong together any more: refused before Spark runs a batch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.lake import Lake, LakePipeline
from tidemill.errors import GateRefusedError

BATCHES = 3


def declare(lake: Lake, name: str) -> LakePipeline:
    schema = {"path": f"landing/{name}", "format": "json", "schema": "id long", "max_files_per_batch": 1}
    return lake.pipeline(
        name,
        source={"files": schema},
        sinks=[{"delta": {"table": f"bronze/{name}"}}],
        run={"mode": "incremental"},
    )


def run_batches(lake: Lake, name: str) -> LakePipeline:
    """A pipeline that has run; each batch is the row of its number."""
    for number in range(BATCHES):
        lake.land_rows(f"landing/{name}/{number}.json", [{"id": number}])
    pipeline = declare(lake, name)
    pipeline.run_incremental()
    return pipeline


@pytest.fixture
def orders(lake: Lake) -> LakePipeline:
    return run_batches(lake, "orders")


def refusal_of(pipeline: LakePipeline) -> GateRefusedError:
    """Run with a new file waiting; the refused start must not have touched anything."""
    lake = pipeline.lake
    lake.land_rows(f"landing/{pipeline.name}/new.json", [{"id": 100}])
    before = files_of(lake.root)
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    assert files_of(lake.root) == before
    assert refused.value.facts["pipeline"] == pipeline.name
    return refused.value


def files_of(folder: Path) -> dict[Path, float]:
    return {path: path.stat().st_mtime for path in folder.rglob("*") if path.is_file()}


def forget(checkpoint: Path, batch_id: int) -> None:
    """Roll a checkpoint back by hand, as a restored backup does."""
    for folder in ("offsets", "commits"):
        for name in (str(batch_id), f".{batch_id}.crc"):
            (checkpoint / folder / name).unlink(missing_ok=True)


def test_the_checkpoint_of_another_pipeline_is_refused(lake: Lake, orders: LakePipeline) -> None:
    payments = run_batches(lake, "payments")
    shutil.rmtree(orders.checkpoint)
    shutil.copytree(payments.checkpoint, orders.checkpoint)
    error = refusal_of(orders)
    assert error.error_id == "TIDE-CKPT-001"
    assert error.facts["table"] == "bronze/orders"
    assert error.facts["checkpoint_query"] == payments.query_id


def test_the_checkpoint_of_another_pipeline_under_a_new_one_is_refused(
    lake: Lake, orders: LakePipeline
) -> None:
    returns = declare(lake, "returns")
    returns.checkpoint.parent.mkdir(parents=True)
    shutil.copytree(orders.checkpoint, returns.checkpoint)
    assert refusal_of_new(returns).error_id == "TIDE-CKPT-005"


def refusal_of_new(pipeline: LakePipeline) -> GateRefusedError:
    pipeline.lake.land_rows(f"landing/{pipeline.name}/new.json", [{"id": 100}])
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    return refused.value


def test_the_state_folder_of_another_pipeline_is_refused(lake: Lake, orders: LakePipeline) -> None:
    returns = declare(lake, "returns")
    shutil.copytree(lake.root / "state" / "orders", lake.root / "state" / "returns")
    assert refusal_of_new(returns).error_id == "TIDE-CKPT-006"


def test_a_deleted_checkpoint_is_refused(orders: LakePipeline) -> None:
    shutil.rmtree(orders.checkpoint)
    error = refusal_of(orders)
    assert error.error_id == "TIDE-CKPT-004"
    assert (error.facts["checkpoint_batch"], error.facts["table_batch"]) == (None, BATCHES - 1)


def test_a_checkpoint_rolled_back_is_refused(orders: LakePipeline) -> None:
    for batch_id in (1, 2):
        forget(orders.checkpoint, batch_id)
    error = refusal_of(orders)
    assert error.error_id == "TIDE-CKPT-004"
    assert (error.facts["checkpoint_batch"], error.facts["table_batch"]) == (0, BATCHES - 1)


def test_a_checkpoint_rolled_back_by_its_last_batch_is_refused(orders: LakePipeline) -> None:
    """Spark would plan the batch anew, with more files, and Delta would skip it."""
    forget(orders.checkpoint, BATCHES - 1)
    assert refusal_of(orders).error_id == "TIDE-CKPT-004"


def test_a_dropped_table_is_refused(lake: Lake, orders: LakePipeline) -> None:
    shutil.rmtree(lake.root / "tables/bronze/orders")
    error = refusal_of(orders)
    assert error.error_id == "TIDE-CKPT-005"
    assert (error.facts["checkpoint_batch"], error.facts["table_batch"]) == (BATCHES - 1, None)


@pytest.mark.parametrize("target", ["VERSION AS OF 2", "TIMESTAMP AS OF '{moment}'"])
def test_a_table_restored_to_an_older_version_is_refused(
    lake: Lake, orders: LakePipeline, spark: SparkSession, target: str
) -> None:
    table = lake.root / "tables/bronze/orders"
    moment = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").where("version = 2").collect()[0]["timestamp"]
    spark.sql(f"RESTORE TABLE delta.`{table}` TO {target.format(moment=moment)}")
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [0, 1]
    error = refusal_of(orders)
    assert error.error_id == "TIDE-CKPT-005"
    assert error.facts["checkpoint_batch"] == BATCHES - 1


def test_a_torn_batch_of_the_checkpoint_is_refused(orders: LakePipeline) -> None:
    torn = orders.checkpoint / "offsets" / str(BATCHES - 1)
    torn.write_bytes(torn.read_bytes()[:40])
    before = files_of(orders.lake.root)
    with pytest.raises(GateRefusedError) as refused:
        orders.run_incremental()
    assert (refused.value.error_id, refused.value.facts) == ("TIDE-CKPT-007", {"file": str(torn)})
    assert files_of(orders.lake.root) == before


def test_a_crash_is_no_reason_to_refuse(lake: Lake, orders: LakePipeline) -> None:
    """Killed between the table's commit and the checkpoint's."""
    for name in (str(BATCHES - 1), f".{BATCHES - 1}.crc"):
        (orders.checkpoint / "commits" / name).unlink(missing_ok=True)
    orders.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [0, 1, 2]
