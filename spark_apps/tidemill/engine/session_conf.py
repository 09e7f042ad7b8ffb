"""Spark's configuration for one pipeline. Pure and without Spark, so that `plan` can show it."""

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

# As a string, because an import of the module would import Spark and pandas.
PYTHON_DAEMON = "tidemill.engine.python_daemon"

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

# Spark's default pattern misses JAAS lines, account keys, connection strings and SAS signatures.
REDACTION_PATTERN = (
    r"(?i)secret|password|passwd|token|access[._-]?key|account[._-]?key|jaas|connection[._-]?string|"
    r"credential|signature|sig="
)

# Number of tasks of the Spark job that rebuilds Delta's snapshot state at each commit. The default of 50
# costs seconds per batch on few cores; the small table logs of a stream need at most two.
SNAPSHOT_PARTITIONS = 2

# Maximum number of rows in one Arrow batch between the JVM and a Python worker. A batch and its decoded copy
# must fit in the worker's memory: 50,000 records of 1 kB are 50 MB. Larger records are limited by bytes,
# below.
ARROW_BATCH_RECORDS = 50_000
ARROW_BATCH_BYTES = 32 * 2**20

# Shuffle partitions of a backfill per core: enough to even out skew, but few enough that each is worth a
# task.
SHUFFLE_PARTITIONS_PER_CORE = 16

# Time between two polls of a source without new data. Spark's default, 10 ms, suits brokers. A poll of a
# folder or table lists files, 100 times a second with `trigger: 0 seconds`, and object stores charge for
# each. Must stay below the expected latency of a stream of files, which is seconds.
POLLING_DELAY_OF_LISTED_SOURCES = "1s"

# Folder of managed tables, which pipelines do not have. Spark creates it, by default in the current folder.
WAREHOUSE = "file:/tmp/spark-warehouse"

# Maximum time to stop a query, in seconds, after its batch has ended or the drain's deadline has passed.
STOP_TIMEOUT_SECONDS = 15


def session_conf(pipeline: Pipeline, pod: DriverPod | None = None, mode: Mode = "stream") -> dict[str, str]:
    """Return all Spark settings of a driver of `pipeline`.

    Args:
        pipeline: The pipeline to run.
        pod: The driver's pod, in which a size with executors creates them; None if the driver runs alone.
        mode: Mode of the run. A backfill is one large batch without state, with special settings.
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
        # Filters the files of a folder by options of a file source, and accepts all other files.
        "spark.hadoop.mapreduce.input.pathFilter.class": "io.tidemill.files.WantedFiles",
        # Timestamps mean the same on every machine, regardless of its time zone.
        "spark.sql.session.timeZone": "UTC",
        # Write the same type as the arrow writer. Spark's default, INT96, has no statistics, and other
        # readers read it as a time without a zone.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_RECORDS),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BATCH_BYTES),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.sql.warehouse.dir": WAREHOUSE,
    }


def _stream_conf(pipeline: Pipeline) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(pipeline.spec.run.shuffle_partitions),
        # Spark's streams do not use adaptive execution, and the small jobs of a batch's writer gain nothing
        # by it.
        "spark.sql.adaptive.enabled": "false",
        **_polling_conf(pipeline),
    }


def _polling_conf(pipeline: Pipeline) -> dict[str, str]:
    sources = [stream.spec.source for stream in pipeline.streams.values()]
    if not any(source.files or source.delta for source in sources):
        return {}
    return {"spark.sql.streaming.pollingDelay": POLLING_DELAY_OF_LISTED_SOURCES}


def _batch_conf(pipeline: Pipeline, pod: DriverPod | None) -> dict[str, str]:
    """Use many small partitions, which Spark coalesces once it knows their sizes."""
    executors = pipeline.size.executors
    alone = executors is None or not uses_executors(pipeline, pod)
    cores = pipeline.size.driver.cores if alone or executors is None else executor_slots(executors)
    return {
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS_PER_CORE * cores),
        "spark.sql.adaptive.enabled": "true",
    }


def state_conf(store: StateStore) -> dict[str, str]:
    """Return the settings of the state store. Spark pins it, with its format, in a new checkpoint."""
    return {
        PROVIDER_SETTING: PROVIDERS[store],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Format 2 names state files by a unique id, so leftover state of another history is never read. The
        # in-memory store supports only format 1; for it, the gate checks for leftover state.
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2" if store == "rocksdb" else "1",
    }


def _checkpoint_conf() -> dict[str, str]:
    return {
        # The default manager renames through FileContext, which forks a process for each file on a local
        # disk. Both rename atomically.
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.checkpoint.renamedFileCheck.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
        # At most one run of a query in a driver; a second start would be our bug and must not replace the
        # first.
        "spark.sql.streaming.stopActiveRunOnRestart": "false",
        # A batch that hangs must not block its driver, because the receipt is written without it. Spark's
        # default is to wait for ever. Together with the drain's deadline this must stay below the runtime's
        # grace period (spec/environment.py).
        "spark.sql.streaming.stopTimeout": f"{STOP_TIMEOUT_SECONDS}s",
    }


def _retention_conf(pipeline: Pipeline) -> dict[str, str]:
    return {
        # Spark deletes batch logs and state versions that are older than this many batches.
        "spark.sql.streaming.minBatchesToRetain": str(retention_of(pipeline.spec).batches),
    }


def _delta_conf() -> dict[str, str]:
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": str(SNAPSHOT_PARTITIONS),
        # A count that Delta answers from its log leaves no trace of the table's version in the plan.
        "spark.databricks.delta.optimizeMetadataQuery.enabled": "false",
        # With Delta's own log store, two drivers could both win a commit on local disks and volumes.
        "spark.delta.logStore.file.impl": "io.tidemill.delta.ExclusiveLogStore",
        "spark.delta.logStore.s3a.impl": "io.tidemill.delta.ExclusiveLogStore",
        "spark.hadoop.fs.file.impl": "io.tidemill.hadoop.LocalFileSystemWithoutForks",
    }


def _safety_conf() -> dict[str, str]:
    return {
        "spark.redaction.regex": REDACTION_PATTERN,
        "spark.sql.redaction.options.regex": REDACTION_PATTERN,
    }
