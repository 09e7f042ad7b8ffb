"""Number of transactions per window of arrival."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(transactions: DataFrame) -> DataFrame:
    """One row per 5 minutes, once they are over. State: one row per open window."""
    windows = transactions.groupBy(F.window("kafka_timestamp", "5 minutes"))
    return windows.agg(F.count("*").alias("arrivals")).select(
        F.col("window.start").alias("window_start"), "arrivals"
    )
