"""How many transactions were processed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(transactions: DataFrame) -> DataFrame:
    """One row per 5 minutes of event time, with the time of processing beside it."""
    processed = transactions.withColumn("processing_time", F.current_timestamp())
    counts = processed.groupBy(F.window("event_time", "5 minutes")).agg(
        F.count("*").alias("events"), F.max("processing_time").alias("processed")
    )
    return counts.select(F.col("window.start").alias("window_start"), "events", "processed")
