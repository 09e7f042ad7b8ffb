"""Spark's configuration for one pipeline. Decided here, without Spark, so that `plan` can show it."""

from __future__ import annotations

from typing import Literal

from tidemill.checkpoint.retention.rule import retention_of
from tidemill.engine.driver_pod import DriverPod
from tidemill.engine.kubernetes_conf import executor_slots, kubernetes_conf, uses_executors
from tidemill.engine.spark_ui import ui_conf
from tidemill.spec.project import Pipeline
from tidemill.spec.state_store import PROVIDER_SETTING, PROVIDERS, StateStore
from tidemill.spec.units import format_size

Mode = Literal["stream", "incremental", "backfill"]

# As a name: whoever imports the module imports Spark and pandas.
PYTHON_DAEMON = "tidemill.engine.python_daemon"

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

# Spark's default misses JAAS lines, account keys, connection strings and SAS signatures.
REDACTION_PATTERN = (
    r"(?i)secret|password|passwd|token|access[._-]?key|account[._-]?key|jaas|connection[._-]?string|"
    r"credential|signature|sig="
)

# Delta's snapshot state is rebuilt by a Spark job of this many tasks at each commit; the default of 50
# costs seconds a batch on few cores, and the small tables' logs of a stream need no more than two.
SNAPSHOT_PARTITIONS = 2

# Rows in one Arrow batch between the JVM and a Python worker. A batch and its decoded copy must fit the
# worker's memory: 50,000 records of 1 kB are 50 MB; larger records are capped by bytes, below.
ARROW_BATCH_RECORDS = 50_000
ARROW_BATCH_BYTES = 32 * 2**20

# Shuffle partitions of a backfill for each core: enough to even out skew, and few enough that each is worth a
# task.
SHUFFLE_PARTITIONS_PER_CORE = 16

# Time between two looks at a source that had nothing new. Spark's default, 10 ms, is for brokers: a look at
# a folder or a table lists files, 100 times a second with `trigger: 0 seconds`, and object stores charge for
# each. Must stay below the latency that a stream of files is expected to have, which is seconds.
POLLING_DELAY_OF_LISTED_SOURCES = "1s"

# Longest that stopping a query may take, in seconds, after its batch ended or the drain's deadline passed.
STOP_TIMEOUT_SECONDS = 15


def session_conf(pipeline: Pipeline, pod: DriverPod | None = None, mode: Mode = "stream") -> dict[str, str]:
    """All Spark settings of a driver of `pipeline`.

    Args:
        pipeline: What will run.
        pod: The driver's own; in one, a size with executors makes them. Else the driver works alone.
        mode: How it will run. A backfill is one large batch without state, and has settings for that.
    """
    return {
        "spark.app.name": f"tidemill-{pipeline.name}",
        "spark.driver.memory": format_size(pipeline.size.driver.memory),
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": PYTHON_DAEMON,
        **ui_conf(pipeline, pod),
        **_place_conf(pipeline, pod),
        **_sql_conf(),
        **state_conf(pipeline.spec.run.state_store),
        **_checkpoint_conf(),
        **(_batch_conf(pipeline, pod) if mode == "backfill" else _stream_conf(pipeline)),
        **_retention_conf(pipeline),
        **_delta_conf(),
        **_safety_conf(),
    }


def _place_conf(pipeline: Pipeline, pod: DriverPod | None) -> dict[str, str]:
    size = pipeline.size
    if pod is not None and size.executors is not None:
        return kubernetes_conf(pipeline, pod, size.executors)
    return {
        "spark.master": f"local[{size.driver.cores}]",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def _sql_conf() -> dict[str, str]:
    return {
        # Chooses among the files of a folder by options of a files source, and takes all others.
        "spark.hadoop.mapreduce.input.pathFilter.class": "io.tidemill.files.WantedFiles",
        # One meaning of a timestamp everywhere, whatever the machine's zone.
        "spark.sql.session.timeZone": "UTC",
        # As the arrow writer does. Spark's default, INT96, has no statistics, and other readers take it for
        # a time without a zone.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_RECORDS),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BATCH_BYTES),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }


def _stream_conf(pipeline: Pipeline) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(pipeline.spec.run.shuffle_partitions),
        # Spark's streams do not adapt; nor do the small jobs of a batch's writer gain by it.
        "spark.sql.adaptive.enabled": "false",
        **_polling_conf(pipeline),
    }


def _polling_conf(pipeline: Pipeline) -> dict[str, str]:
    sources = [stream.spec.source for stream in pipeline.streams.values()]
    if not any(source.files or source.delta for source in sources):
        return {}
    return {"spark.sql.streaming.pollingDelay": POLLING_DELAY_OF_LISTED_SOURCES}


def _batch_conf(pipeline: Pipeline, pod: DriverPod | None) -> dict[str, str]:
    """Many small partitions, which Spark joins to as few as it finds good once it knows their sizes."""
    executors = pipeline.size.executors
    alone = executors is None or not uses_executors(pipeline, pod)
    cores = pipeline.size.driver.cores if alone or executors is None else executor_slots(executors)
    return {
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS_PER_CORE * cores),
        "spark.sql.adaptive.enabled": "true",
    }


def state_conf(store: StateStore) -> dict[str, str]:
    """What holds the state. Spark pins it, with its format, when a checkpoint is born."""
    return {
        PROVIDER_SETTING: PROVIDERS[store],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Format 2 names state files by a unique id, so state left behind by another history is never read.
        # The store in memory knows format 1 only; there the gate looks for what was left behind.
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2" if store == "rocksdb" else "1",
    }


def _checkpoint_conf() -> dict[str, str]:
    return {
        # The default manager renames through FileContext, which forks a process for each file on a
        # local disk. Both rename atomically.
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.renamedFileCheck.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
        # At most one run of a query in a driver; a second start would be our bug, not something to take over.
        "spark.sql.streaming.stopActiveRunOnRestart": "false",
        # A batch that hangs must not hang its driver, too: the receipt is written without it. Spark would
        # wait for ever. Together with the drain's own deadline below what the runtime grants (drain.py).
        "spark.sql.streaming.stopTimeout": f"{STOP_TIMEOUT_SECONDS}s",
    }


def _retention_conf(pipeline: Pipeline) -> dict[str, str]:
    return {
        # Batch logs and state versions alike: Spark deletes what is older than this many batches.
        "spark.sql.streaming.minBatchesToRetain": str(retention_of(pipeline.spec).batches),
    }


def _delta_conf() -> dict[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": str(SNAPSHOT_PARTITIONS),
        # A count that Delta takes from its log leaves no trace of the table's version in the plan.
        "spark.databricks.delta.optimizeMetadataQuery.enabled": "false",
        # Delta's own log store lets two drivers both win a commit on local disks and volumes.
        "spark.delta.logStore.file.impl": "io.tidemill.delta.ExclusiveLogStore",
        "spark.delta.logStore.s3a.impl": "io.tidemill.delta.ExclusiveLogStore",
        "spark.hadoop.fs.file.impl": "io.tidemill.hadoop.LocalFileSystemWithoutForks",
    }


def _safety_conf() -> dict[str, str]:
    return {
        "spark.redaction.regex": REDACTION_PATTERN,
        "spark.sql.redaction.options.regex": REDACTION_PATTERN,
    }
