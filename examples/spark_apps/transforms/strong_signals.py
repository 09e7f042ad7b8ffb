"""Devices with strong signals."""

from pyspark.sql import DataFrame


def transform(signals: DataFrame) -> DataFrame:
    """One row per signal above 15."""
    return signals.select("device", "signal").where("signal > 15")
