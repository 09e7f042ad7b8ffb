"""Readings, flat."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(readings: DataFrame) -> DataFrame:
    """One row per reading; devices count seconds since 1970."""
    flat = readings.select("data.*").withColumn("timestamp", F.timestamp_seconds("timestamp"))
    return flat.select("timestamp", "device", "signal", F.to_date("timestamp").alias("date"))
