"""Number of readings per user."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(readings: DataFrame) -> DataFrame:
    """One row per user, sorted: the whole result can be. State: one row per user."""
    users = readings.groupBy("User").agg(F.count("*").alias("readings"))
    return users.orderBy(F.col("readings").desc(), "User")
