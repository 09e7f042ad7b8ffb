"""Number of rows in each window of 5 minutes."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(rows: DataFrame) -> DataFrame:
    """One row per window, once the watermark has passed its end. State: one row per open window."""
    windows = rows.groupBy(F.window("timestamp", "5 minutes"))
    counts = windows.agg(F.count("*").alias("rows"), F.max("value").alias("newest"))
    return counts.select(F.col("window.start").alias("window_start"), "rows", "newest")
