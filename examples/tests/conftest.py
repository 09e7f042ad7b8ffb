"""A Spark session for the tests of transforms: no cluster, no broker, no stream."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One for all tests."""
    builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", 1)
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()
