"""Number of signals."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(signals: DataFrame) -> DataFrame:
    """One row. State: the same."""
    return signals.agg(F.count("*").alias("signals"))
