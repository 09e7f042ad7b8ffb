"""Names of streams in the checkpoint: Spark's settings for them, and a workaround for Spark 4.2.0."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

# Values for one stream, and for several. The two settings belong together: named offsets need format 2, and
# then every stream needs a name.
CONF_OF_NAMES = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": ("false", "true"),
    "spark.sql.streaming.offsetLog.formatVersion": ("1", "2"),
}


def tell_of_names(spark: SparkSession, *, named: bool) -> None:
    """Set whether the session's next query identifies its streams by name."""
    for name, (one, several) in CONF_OF_NAMES.items():
        spark.conf.set(name, several if named else one)
    if named:
        _keep_partitions(spark)


def _keep_partitions(spark: SparkSession) -> None:
    """Make named offsets keep `spark.sql.shuffle.partitions`, as the offsets of one stream do.

    Spark 4.2.0 omits the number (SPARK-59919). Without it, a query that was killed inside a batch after its
    first cannot start again ("None.get"), and state would be read with another number of partitions. The kept
    settings are a Scala list, whose last cell can be extended by one.
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
    """Return a Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
