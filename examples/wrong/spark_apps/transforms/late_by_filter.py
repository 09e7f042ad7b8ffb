"""Transactions that come too late."""

from pyspark.sql import DataFrame


def transform(transactions: DataFrame) -> DataFrame:
    """One row per late transaction."""
    return transactions.filter("event_time < watermark")
