"""Readings, average and peak values per device and day."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(readings: DataFrame) -> DataFrame:
    """One row per device and day; each event counts once.

    State: event ids and one row per device and day, both for the length of the watermark.
    """
    once = readings.dropDuplicates(["event_id", "timestamp"])
    # Rounded, because the last digits of a sum of floats depend on the order of its terms.
    days = once.groupBy(F.window("timestamp", "1 day"), "device_id").agg(
        F.count("*").alias("events"),
        F.round(F.avg("temperature"), 6).alias("avg_temp"),
        F.max("temperature").alias("max_temp"),
        F.max("humidity").alias("max_humidity"),
    )
    return days.select(
        "device_id",
        F.to_date("window.start").alias("day"),
        F.col("window.start").alias("day_start"),
        "events",
        "avg_temp",
        "max_temp",
        "max_humidity",
    )
