"""Spark and Python on one container: checkpoint, state and tables by ABFS, control files by obstore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.lake import Lake, LakePipeline
from tests.support.store_servers import AZURITE_ACCOUNT, AZURITE_KEY
from tests.support.stores import AZURITE, StorePlace
from tidemill.checkpoint.epochs import newest_epoch
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.session import reach_storage
from tidemill.ledger.read import read_ledger
from tidemill.names import Layout
from tidemill.storage.access import access_to

KEY_SETTING = f"fs.azure.account.key.{AZURITE_ACCOUNT}.dfs.core.windows.net"

# Keeps state, so RocksDB's files also go to the store.
FIRST_OF_EACH_ID = """
def transform(readings):
    return readings.dropDuplicates(["id", "at"])
"""


@pytest.fixture
def readings(tmp_path: Path, spark: SparkSession, store_place: StorePlace) -> LakePipeline:
    reach_storage(spark, access_to(store_place.root))
    lake = Lake(tmp_path / "lake", spark, environment=dict(store_place.keys))
    return lake.pipeline(
        "readings",
        source={"files": {"path": "landing", "format": "json", "schema": "id long, at timestamp"}},
        event_time={"column": "at", "watermark": "1 hour", "max_ahead": "off"},
        transform=lake.transform("readings", FIRST_OF_EACH_ID),
        sinks=[
            {"delta": {"table": "bronze/readings", "writer": "arrow"}},
            {"delta": {"table": "silver/readings", "writer": "spark"}},
        ],
        run={"mode": "incremental", "shuffle_partitions": 2},
    )


def land(place: StorePlace, name: str, *ids: int) -> None:
    lines = "".join(json.dumps({"id": id_, "at": "2026-01-01T00:00:00Z"}) + "\n" for id_ in ids)
    place.open().write(f"{place.root}/landing/{name}", lines.encode())


@pytest.mark.parametrize("store_place", [AZURITE], indirect=True)
def test_an_incremental_pipeline_goes_on_where_it_was(
    store_place: StorePlace, readings: LakePipeline
) -> None:
    layout, store = Layout(store_place.root), store_place.open()
    land(store_place, "1.json", 1, 2, 2)
    readings.run_incremental()
    land(store_place, "2.json", 2, 3)
    readings.run_incremental()

    for table in ("bronze/readings", "silver/readings"):
        assert store_place.ids(layout.table(table)) == [1, 2, 3]
        # The first run ends with a batch without records, because the watermark has come into being.
        ledger = [commit.entry for commit in read_ledger(layout.table(table)) if commit.entry]
        assert [(entry.batch_id, entry.epoch) for entry in ledger] == [(2, 2), (1, 1), (0, 1)]
    batches = CheckpointBatches(store, layout.checkpoint("readings", "g0001"))
    assert (batches.last_planned(), batches.last_committed()) == (2, 2)
    assert newest_epoch(store, layout, "readings") == 2
    state = store.list_files(f"{layout.checkpoint('readings', 'g0001')}/state")
    assert len(state) > 0


@pytest.mark.parametrize("store_place", [AZURITE], indirect=True)
def test_the_key_is_not_among_the_settings_that_spark_was_started_with(
    readings: LakePipeline, spark: SparkSession
) -> None:
    # They would be on the JVM's command line, where every user of the machine can read them.
    assert AZURITE_KEY not in str(spark.sparkContext.getConf().getAll())
    assert readings.lake.spark.sparkContext._jsc.hadoopConfiguration().get(KEY_SETTING) == AZURITE_KEY
