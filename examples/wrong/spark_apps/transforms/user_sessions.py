"""Sessions of users."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(transactions: DataFrame) -> DataFrame:
    """One row per user and session, which ends after 5 minutes without a transaction.

    State: one row per open session.
    """
    sessions = transactions.groupBy(F.session_window("event_time", "5 minutes"), "user_id")
    return sessions.agg(F.count("*").alias("events")).select(
        "user_id", F.col("session_window.start").alias("session_start"), "events"
    )
