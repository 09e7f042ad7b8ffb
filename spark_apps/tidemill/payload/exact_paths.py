"""Read files by their exact names, which may look like patterns to Spark."""

from __future__ import annotations

from pyspark.sql import DataFrameReader, SparkSession


def exact_reader(spark: SparkSession) -> DataFrameReader:
    """Return a reader for exactly the given paths: `[x]`, `{a}`, `*` and `?` are plain characters.

    Do not use it for a folder of which a stream or a user selects a part with `*`.
    """
    return spark.read.option("__globPaths__", "false")
