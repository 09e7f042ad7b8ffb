"""The values that `tidemill query` is held to are those that Spark gives."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.query_expressions import EXPRESSIONS, ROWS


@pytest.mark.parametrize(("expression", "expected"), EXPRESSIONS)
def test_spark_gives_an_expression_the_value_that_a_query_shows(
    spark: SparkSession, expression: str, expected: Any
) -> None:
    spark.createDataFrame(ROWS.slice(0, 1)).createOrReplaceTempView("readings")
    (row,) = spark.sql(f"SELECT {expression} AS v FROM readings").collect()
    found = row["v"]
    is_plain = found is None or isinstance(found, (str, int, float, list, date, datetime))
    assert (found if is_plain else float(found)) == expected


def test_an_aggregate_of_spark_leaves_nulls_out(spark: SparkSession) -> None:
    spark.createDataFrame(ROWS).createOrReplaceTempView("readings")
    assert spark.sql("SELECT array_agg(site) AS v FROM readings").collect()[0]["v"] == ["aab"]


@pytest.mark.parametrize(("direction", "first"), [("ASC", None), ("DESC", 7)])
def test_spark_sorts_nulls_before_all_values(spark: SparkSession, direction: str, first: int | None) -> None:
    spark.createDataFrame(ROWS).createOrReplaceTempView("readings")
    assert spark.sql(f"SELECT amount FROM readings ORDER BY amount {direction}").first()["amount"] == first
