"""Transactions with the scores of a model."""

from pyspark.sql import DataFrame

from tidemill.engine.models import Model


def transform(transactions: DataFrame, fraud: Model) -> DataFrame:
    """One row per transaction, with the model's prediction."""
    return fraud.predict(transactions).select("event_id", "user_id", "amount", "prediction")
