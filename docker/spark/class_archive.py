"""Makes the class-data-sharing archive of drivers and executors: for the image, and on a checkout for tests.

    class_archive.py FILE

Runs a small stream the way a driver does and lets the JVM write down the classes that it loaded. A JVM takes
the archive only with the class path that it was made with, so that one must be the driver's: our jars sorted
by name, as tidemill/engine/session.py names them, then Spark's (spark_class_path.py). With another one, as
where the storage root is on S3, it starts without the archive and says nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

if TYPE_CHECKING:
    import pyarrow as pa

# Seconds that the JVM may take to write the archive when it ends. It takes 4 on two idle cores, and more than
# 120 at the lowest priority next to two busy test processes, as in CI.
ARCHIVE_TIMEOUT_SECONDS = 1800

CONF = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.delta.logStore.file.impl": "io.tidemill.delta.ExclusiveLogStore",
    "spark.hadoop.fs.file.impl": "io.tidemill.hadoop.LocalFileSystemWithoutForks",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}

# What such a stream does not load, and a driver in a cluster does.
FURTHER_CLASSES = (
    "org.apache.kafka.clients.admin.KafkaAdminClient",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesClusterManager",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesClusterSchedulerBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
)


def main(archive: Path) -> None:
    """Write the archive, and prove that a JVM takes it."""
    jars = sorted(Path(os.environ["TIDEMILL_JARS"], "spark").glob("*.jar"))
    class_path = ":".join(map(str, jars))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # The host name of a build container may not resolve.
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    # The log of classes that cannot be archived (signed jars, generated classes) is of no use in the build.
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive} -Xlog:disable"
    )
    with tempfile.TemporaryDirectory() as folder:
        java, whole = run_stream(class_path, Path(folder))
    proof = [java, "-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-cp", whole, "-version"]
    subprocess.run(proof, check=True)


def run_stream(class_path: str, folder: Path) -> tuple[Path, str]:
    """One batch with state, Arrow and Delta; when the JVM has ended, its program and its whole class path."""
    builder = SparkSession.builder.config("spark.driver.extraClassPath", class_path)
    for name, value in CONF.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    load_classes(spark)
    query = (
        events_per_minute(spark)
        .writeStream.foreachBatch(lambda batch, number: write(batch, number, folder / "table"))
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.read.format("delta").load(str(folder / "table")).count()
    system = spark.sparkContext._jvm.System
    java, whole = Path(system.getProperty("java.home"), "bin/java"), system.getProperty("java.class.path")
    process = spark.sparkContext._gateway.proc
    spark.stop()
    process.stdin.close()  # Spark's gateway ends with it
    process.wait(ARCHIVE_TIMEOUT_SECONDS)
    return java, whole


def events_per_minute(spark: SparkSession) -> DataFrame:
    """A stream with state behind a Python function over Arrow."""
    events = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    events = events.mapInArrow(same, events.schema).withWatermark("timestamp", "1 minute")
    windows = events.groupBy(F.window("timestamp", "1 minute"), F.col("value") % 3).count()
    return windows.selectExpr("window.start AS minute", "count")


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as it came."""
    yield from batches


def write(batch: DataFrame, number: int, table: Path) -> None:
    """Append with an exactly-once id, as the Spark writer does."""
    writer = batch.write.format("delta").mode("append")
    writer.option("txnAppId", "archive").option("txnVersion", number).save(str(table))


def load_classes(spark: SparkSession) -> None:
    """Load what the stream does not need, and set a Kafka source up that is never started."""
    for name in FURTHER_CLASSES:
        spark.sparkContext._jvm.java.lang.Class.forName(name)
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:1")
    kafka.option("subscribe", "none").load()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
