"""Transactions as other teams receive them."""

from pyspark.sql import DataFrame


def transform(transactions: DataFrame) -> DataFrame:
    """One row per transaction; the topic gets it as one JSON object."""
    return transactions.select("user_id", "event_id", "amount")
