"""Checkpoint and table that do not belong together any more: refused before Spark runs a batch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.lake import KeptLake, Lake, LakePipeline
from tidemill.checkpoint.gate import examine, gather_facts
from tidemill.checkpoint.holds import Hold, take_hold
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
    """Return a pipeline that has run; each batch is the row of its number."""
    for number in range(BATCHES):
        lake.land_rows(f"landing/{name}/{number}.json", [{"id": number}])
    pipeline = declare(lake, name)
    pipeline.run_incremental()
    return pipeline


COUNTING = """
from pyspark.sql import functions as F

def transform(readings):
    # Windows of one minute: the newest stay open, so state goes from run to run.
    return readings.groupBy(F.window("at", "1 minute")).count().select("window.start", "count")
"""


def run_windows(lake: Lake) -> None:
    """Run a stateful pipeline twice."""
    lake.transform("windows", COUNTING)
    pipeline = lake.pipeline(
        "windows",
        source={"files": {"path": "landing/windows", "format": "json", "schema": "at timestamp"}},
        event_time={"column": "at", "watermark": "10 seconds"},
        transform="windows:transform",
        sinks=[{"delta": {"table": "silver/windows"}}],
        run={"mode": "incremental"},
    )
    for minute in range(2):
        lake.land_rows(f"landing/windows/{minute}.json", [{"at": f"2026-01-01T00:0{minute}:00Z"}])
        pipeline.run_incremental()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> KeptLake:
    """Return a lake whose pipelines have run."""
    lake = Lake(tmp_path_factory.mktemp("gate") / "lake", spark)
    run_batches(lake, "orders")
    run_windows(lake)
    return KeptLake(lake)


@pytest.fixture
def lake(kept: KeptLake) -> Lake:
    return kept.restored()


@pytest.fixture
def orders(lake: Lake) -> LakePipeline:
    return LakePipeline(lake, "orders")


@pytest.fixture
def windows(lake: Lake) -> LakePipeline:
    return LakePipeline(lake, "windows")


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
    uncommit(checkpoint, batch_id)
    for name in (str(batch_id), f".{batch_id}.crc"):
        (checkpoint / "offsets" / name).unlink(missing_ok=True)


def uncommit(checkpoint: Path, batch_id: int) -> None:
    """Remove the commit of a batch, as if the driver had been killed after the table's commit."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


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
    """Spark would plan the batch again with more files, and Delta would skip it."""
    forget(orders.checkpoint, BATCHES - 1)
    assert refusal_of(orders).error_id == "TIDE-CKPT-004"


def test_a_dropped_table_is_refused(lake: Lake, orders: LakePipeline) -> None:
    shutil.rmtree(lake.root / "tables/bronze/orders")
    error = refusal_of(orders)
    assert error.error_id == "TIDE-CKPT-005"
    assert (error.facts["checkpoint_batch"], error.facts["table_batch"]) == (BATCHES - 1, None)


@pytest.mark.parametrize(
    "target", ["VERSION AS OF 2", pytest.param("TIMESTAMP AS OF '{moment}'", marks=pytest.mark.soak)]
)
@pytest.mark.soak
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


def test_a_rewind_by_hand_is_refused(lake: Lake, orders: LakePipeline, spark: SparkSession) -> None:
    """Table and checkpoint agree, and Delta would skip all that is read again."""
    table = lake.root / "tables/bronze/orders"
    spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF 2")
    forget(orders.checkpoint, BATCHES - 1)
    error = refusal_of(orders)
    assert error.error_id == "TIDE-CKPT-018"
    assert (error.facts["table_batch"], error.facts["transaction"]) == (BATCHES - 2, BATCHES - 1)


def test_a_hold_is_a_refusal(orders: LakePipeline) -> None:
    layout = orders.resolved.layout
    take_hold(orders.lake.store, layout, "orders", Hold(id="by-anna", by="anna", why="looking at rows"))
    assert refusal_of(orders).error_id == "TIDE-CKPT-029"


def test_a_file_of_the_batch_to_repeat_that_is_gone_is_refused(lake: Lake, orders: LakePipeline) -> None:
    uncommit(orders.checkpoint, BATCHES - 1)
    (lake.root / f"landing/orders/{BATCHES - 1}.json").unlink()
    error = refusal_of(orders)
    assert error.error_id == "TIDE-CKPT-024"
    assert [Path(uri).name for uri in error.facts["missing"]] == [f"{BATCHES - 1}.json"]


def test_a_torn_batch_of_the_checkpoint_is_refused(orders: LakePipeline) -> None:
    torn = orders.checkpoint / "offsets" / str(BATCHES - 1)
    torn.write_bytes(torn.read_bytes()[:40])
    error = refusal_of(orders)
    assert (error.error_id, error.facts["file"]) == ("TIDE-CKPT-007", f"offsets/{BATCHES - 1}")


def test_a_crash_is_no_reason_to_refuse(lake: Lake, orders: LakePipeline) -> None:
    """Killed between the table's commit and the checkpoint's."""
    uncommit(orders.checkpoint, BATCHES - 1)
    orders.run_incremental()
    assert sorted(row["id"] for row in lake.rows("bronze/orders")) == [0, 1, 2]


def test_state_that_spark_wrote_is_whole_until_a_file_of_it_is_gone(windows: LakePipeline) -> None:
    facts = gather_facts(windows.lake.store, windows.resolved, "g0001")
    assert [f for f in examine(facts) if f.finding_id != "TIDE-CKPT-090"] == []
    assert facts.state.operators == (0,)
    assert facts.committed is not None
    assert facts.state.version == facts.committed + 1
    newest = [*windows.checkpoint.glob(f"state/0/*/{facts.state.version}_*")]
    assert len(newest) >= 2
    for file in newest:
        file.unlink()
    assert refusal_of(windows).error_id == "TIDE-CKPT-016"


def test_another_number_of_partitions_is_refused_instead_of_ignored(windows: LakePipeline) -> None:
    declaration = windows.lake.folder / "conf/pipelines/windows.yaml"
    declaration.write_text(
        declaration.read_text().replace("mode: incremental", "mode: incremental\n  shuffle_partitions: 3")
    )
    error = refusal_of(windows)
    assert error.error_id == "TIDE-CKPT-026"
    assert (error.facts["checkpoint_partitions"], error.facts["pipeline_partitions"]) == (2, 3)
