"""Spark's settings. Each was measured or costs correctness when it changes, so each is pinned here."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tidemill.engine.driver_pod import DriverPod, how_reached
from tidemill.engine.session_conf import REDACTION_PATTERN, session_conf
from tidemill.engine.spark_ui import ui_variables

POD = DriverPod("orders-0", "4d5e6f70", "10.1.2.3", "tides", "0a1b2c3d")


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    return session_conf(declared(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # Two drivers never both win a commit, on local disks and S3 too.
        ("spark.delta.logStore.file.impl", "io.tidemill.delta.ExclusiveLogStore"),
        ("spark.delta.logStore.s3a.impl", "io.tidemill.delta.ExclusiveLogStore"),
        # State of another history is never read, and a batch of state costs milliseconds.
        (
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        ),
        ("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true"),
        ("spark.sql.streaming.stateStore.checkpointFormatVersion", "2"),
        # No process is forked for a file on a local disk.
        ("spark.hadoop.fs.file.impl", "io.tidemill.hadoop.LocalFileSystemWithoutForks"),
        (
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        ),
        ("spark.sql.streaming.checkpoint.renamedFileCheck.enabled", "true"),
        # The floor of a commit, and of a VACUUM.
        ("spark.databricks.delta.snapshotPartitions", "2"),
        ("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2"),
        # A timestamp means the same on every machine.
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.streaming.stopActiveRunOnRestart", "false"),
        # Spark creates no folder in the user's project.
        ("spark.sql.warehouse.dir", "file:/tmp/spark-warehouse"),
    ],
)
def test_settings_that_results_or_times_depend_on(conf: dict[str, str], name: str, value: str) -> None:
    assert conf[name] == value


@pytest.mark.parametrize(
    ("source", "delay"),
    [
        ({"kafka": {"topic": "orders"}}, None),
        ({"delta": {"table": "bronze/clicks"}}, "1s"),
        ({"files": {"path": "landing", "format": "text"}}, "1s"),
    ],
)
def test_a_source_that_is_listed_is_not_looked_at_a_hundred_times_a_second(
    tmp_path: Path, source: dict[str, Any], delay: str | None
) -> None:
    conf = session_conf(declared(tmp_path, source=source))
    assert conf.get("spark.sql.streaming.pollingDelay") == delay


def test_the_store_in_memory_comes_with_the_only_format_that_it_knows(tmp_path: Path) -> None:
    conf = session_conf(declared(tmp_path, run={"state_store": "memory"}))
    store = "spark.sql.streaming.stateStore"
    assert conf[f"{store}.providerClass"].endswith(".HDFSBackedStateStoreProvider")
    assert conf[f"{store}.checkpointFormatVersion"] == "1"


def test_nothing_is_downloaded_or_opened_to_the_network(conf: dict[str, str]) -> None:
    assert not [name for name in conf if name in ("spark.jars.packages", "spark.jars.repositories")]
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.driver.bindAddress"] == "127.0.0.1"


def test_python_workers_come_from_a_module_that_is_there(conf: dict[str, str]) -> None:
    assert find_spec(conf["spark.python.daemon.module"]) is not None


@pytest.mark.parametrize(
    ("environment", "run", "is_on"),
    [({}, {}, False), ({"spark_ui": True}, {}, True), ({"spark_ui": True}, {"spark_ui": False}, False)],
)
def test_sparks_ui_is_served_where_it_is_asked_for_on_the_loopback_interface_without_kill(
    tmp_path: Path, environment: dict[str, Any], run: dict[str, Any], is_on: bool
) -> None:
    pipeline = declared(tmp_path, "orders", environment, run=run)
    conf = session_conf(pipeline)
    assert conf["spark.ui.enabled"] == str(is_on).lower()
    assert ui_variables(pipeline) == ({"SPARK_LOCAL_IP": "127.0.0.1"} if is_on else {})
    if is_on:
        assert (conf["spark.ui.port"], conf["spark.ui.killEnabled"]) == ("0", "false")
        assert session_conf(pipeline, POD)["spark.ui.port"] == "4040"


def test_how_a_port_of_a_driver_is_reached() -> None:
    told = "http://10.1.2.3:4040"
    assert how_reached(None, POD) == ""
    assert how_reached(told, None) == "http://127.0.0.1:4040"
    forward = "kubectl -n tides port-forward pod/orders-0 4040, then http://127.0.0.1:4040"
    assert how_reached(told, POD) == forward


def test_the_declaration_decides_cores_memory_and_partitions(tmp_path: Path) -> None:
    sizes = {"large": {"driver": {"cores": 3, "memory": "2g"}}}
    run = {"size": "large", "shuffle_partitions": 7}
    conf = session_conf(declared(tmp_path, "orders", {"sizes": sizes}, run=run))
    assert conf["spark.master"] == "local[3]"
    assert conf["spark.driver.memory"] == "2g"
    assert conf["spark.sql.shuffle.partitions"] == "7"
    assert conf["spark.app.name"] == "tidemill-orders"


def test_a_backfill_has_settings_for_one_large_batch(tmp_path: Path) -> None:
    sizes = {"large": {"driver": {"cores": 3, "memory": "2g"}}}
    run = {"size": "large", "shuffle_partitions": 2}
    pipeline = declared(tmp_path, "orders", {"sizes": sizes}, run=run)
    stream, backfill = session_conf(pipeline), session_conf(pipeline, mode="backfill")
    others = {name for name in stream if stream[name] != backfill[name]}
    assert others == {"spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled"}
    assert backfill["spark.sql.shuffle.partitions"] == "48"
    assert (stream["spark.sql.adaptive.enabled"], backfill["spark.sql.adaptive.enabled"]) == ("false", "true")


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.jaas.config",
        "kafka.ssl.key.password",
        "fs.azure.account.key.plant.dfs.core.windows.net",
        "connection_string",
        "connectionString",
        "sas_token",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "credentials",
        "clientSecret",
    ],
)
def test_settings_that_hold_a_secret_are_redacted(conf: dict[str, str], name: str) -> None:
    assert conf["spark.redaction.regex"] == conf["spark.sql.redaction.options.regex"] == REDACTION_PATTERN
    assert re.search(REDACTION_PATTERN, name) is not None


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "subscribe", "spark.sql.shuffle.partitions"])
def test_other_settings_stay_readable(name: str) -> None:
    assert re.search(REDACTION_PATTERN, name) is None
