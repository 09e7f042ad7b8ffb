"""Amount spent per user and window."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(transactions: DataFrame) -> DataFrame:
    """One row per user and 5 minutes, once they are over. State: one row per user and open window.

    The watermark is the pipeline's own, in `event_time`.
    """
    windows = transactions.groupBy(F.window("event_time", "5 minutes"), "user_id")
    sums = windows.agg(F.sum("amount").alias("total_amount"))
    return sums.select("user_id", F.col("window.start").alias("window_start"), "total_amount")
