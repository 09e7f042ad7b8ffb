"""Number of transactions per window."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(transactions: DataFrame) -> DataFrame:
    """One row per 5 minutes, once they are over. State: one row per open window."""
    counts = transactions.groupBy(F.window("event_time", "5 minutes")).agg(F.count("*").alias("events"))
    return counts.select(F.col("window.start").alias("window_start"), "events")
