"""Each transaction once."""

from pyspark.sql import DataFrame


def transform(transactions: DataFrame) -> DataFrame:
    """One row per transaction. State: ids and times, for the length of the watermark."""
    once = transactions.dropDuplicates(["event_id", "event_time"])
    return once.select("event_id", "user_id", "amount")
