"""The average signal of each type of device."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(signals: DataFrame) -> DataFrame:
    """One row per type and 10 minutes, once they are over. State: one row per type and open window."""
    windows = signals.groupBy(F.window("at", "10 minutes"), "device_type")
    means = windows.agg(F.round(F.avg("signal"), 6).alias("avg_signal"))
    return means.select("device_type", F.col("window.start").alias("window_start"), "avg_signal")
