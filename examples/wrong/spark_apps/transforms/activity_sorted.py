"""Readings, the newest first."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(readings: DataFrame) -> DataFrame:
    """One row per reading."""
    return readings.orderBy(F.col("Creation_Time").desc())
