"""Accelerometer readings of phones and watches, with clear column names."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(readings: DataFrame) -> DataFrame:
    """One row per reading; the arrival time as a timestamp, `Index` as what it is: the user's id."""
    return readings.select(
        F.timestamp_millis("Arrival_Time").alias("Arrival_Time"),
        "Creation_Time",
        "Device",
        F.col("Index").alias("User_ID"),
        "Model",
        "User",
        "gt",
        "x",
        "y",
        "z",
    )
