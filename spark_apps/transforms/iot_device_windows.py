"""Average temperature and peak humidity per device in 5-minute windows."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(readings: DataFrame) -> DataFrame:
    """One row per device and window; each event counts once, however often it was sent.

    State: event ids for the length of the watermark, and one row per device and open window.
    """
    # An event that is sent again carries the same id and the same timestamp, so both name it; with the
    # timestamp in the key, the watermark bounds the state.
    once = readings.dropDuplicates(["event_id", "timestamp"])
    # The last digits of a sum of floats depend on the order of its terms, which no mode promises: rounded, a
    # stream and a backfill give the same row.
    windows = once.groupBy(F.window("timestamp", "5 minutes"), "device_id").agg(
        F.round(F.avg("temperature"), 6).alias("avg_temp"),
        F.max("humidity").alias("max_humidity"),
        F.count("*").alias("events"),
    )
    return windows.select(
        "device_id",
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "avg_temp",
        "max_humidity",
        "events",
    )
