"""Example of a transform's test.

A transform is a function of a DataFrame, so its test needs only rows in memory.
"""

from pyspark.sql import SparkSession
from transforms.large_amounts import transform

COLUMNS = "user_id string, event_time string, amount double"
ROWS = [
    ("u1", "2023-01-01 00:00:00", 150.0),
    ("u2", "2023-01-01 00:01:00", 200.0),
    ("u3", "2023-01-01 00:02:00", 100.0),
]


def test_amounts_above_100_are_kept(spark: SparkSession) -> None:
    """The third one is not above 100."""
    result = transform(spark.createDataFrame(ROWS, COLUMNS))
    assert result.count() == 2
    assert [tuple(row) for row in result.collect()] == ROWS[:2]
