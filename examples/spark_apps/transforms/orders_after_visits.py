"""Orders with the visits that led to them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(orders: DataFrame, visits: DataFrame) -> DataFrame:
    """One row per order and visit of the hour before it.

    The state holds rows of both streams while a match is possible.
    """
    same_user = F.col("user_id") == F.col("customer_id")
    within_an_hour = F.expr("event_time BETWEEN time AND time + INTERVAL 1 HOUR")
    return orders.join(visits, same_user & within_an_hour, how="inner").select(
        "order_id", "visit_id", "event_time"
    )
