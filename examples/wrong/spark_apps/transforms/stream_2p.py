"""Readings with the user's id under its own name."""

from pyspark.sql import DataFrame


def transform(readings: DataFrame) -> DataFrame:
    """One row per reading."""
    return readings.withColumnRenamed("Index", "User_ID")
