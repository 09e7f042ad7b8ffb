"""Number of processed transactions."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(transactions: DataFrame) -> DataFrame:
    """Return one row per 5 minutes of event time, with the processing time."""
    processed = transactions.withColumn("processing_time", F.current_timestamp())
    counts = processed.groupBy(F.window("event_time", "5 minutes")).agg(
        F.count("*").alias("events"), F.max("processing_time").alias("processed")
    )
    return counts.select(F.col("window.start").alias("window_start"), "events", "processed")
