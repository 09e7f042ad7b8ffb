"""Names of streams in the checkpoint: what Spark must be told, and what Spark 4.2.0 forgets with them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

# Values for one stream, and for several. Both or none: named offsets need format 2, and then every stream
# needs a name.
CONF_OF_NAMES = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": ("false", "true"),
    "spark.sql.streaming.offsetLog.formatVersion": ("1", "2"),
}


def tell_of_names(spark: SparkSession, *, named: bool) -> None:
    """Make the session's next query keep its streams by name, or not."""
    for name, (one, several) in CONF_OF_NAMES.items():
        spark.conf.set(name, several if named else one)
    if named:
        _keep_partitions(spark)


def _keep_partitions(spark: SparkSession) -> None:
    """Let named offsets keep `spark.sql.shuffle.partitions`, as those of one stream do.

    Spark 4.2.0 leaves the number out (SPARK-59919). Without it, no query starts again that was killed inside
    a batch after its first ("None.get"), and state would be read with another number of partitions. The
    settings that offsets keep are a list of Scala's, whose last cell can take one more.
    """
    jvm: Any = spark._jvm
    confs = _module(jvm.org.apache.spark.sql.execution.streaming.checkpointing, "OffsetSeqMetadata")
    partitions = _module(jvm.org.apache.spark.sql.internal, "SQLConf").SHUFFLE_PARTITIONS()
    kept = confs.relevantSQLConfs()
    if kept.contains(partitions):
        return
    one_more = getattr(kept.takeRight(0), "$colon$colon")(partitions)
    getattr(kept.takeRight(1), "next_$eq")(one_more)


def _module(package: Any, name: str) -> Any:
    """One of Scala's objects."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
