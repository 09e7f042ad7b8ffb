"""Reading files by their names, which may look like patterns to Spark."""

from __future__ import annotations

from pyspark.sql import DataFrameReader, SparkSession


def exact_reader(spark: SparkSession) -> DataFrameReader:
    """Return a reader for exactly the paths that it is given: `[x]`, `{a}`, `*` and `?` are characters.

    Not for a folder of which a stream or a user names a part by `*`.
    """
    return spark.read.option("__globPaths__", "false")
