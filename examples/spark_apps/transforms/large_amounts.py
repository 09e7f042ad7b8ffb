"""Transactions worth a look."""

from pyspark.sql import DataFrame


def transform(transactions: DataFrame) -> DataFrame:
    """One row per transaction above 100."""
    return transactions.select("user_id", "event_time", "amount").filter("amount > 100")
