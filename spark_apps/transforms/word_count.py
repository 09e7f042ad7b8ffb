"""Number of occurrences of each word."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transform(lines: DataFrame) -> DataFrame:
    """One row per word, over all lines so far. State: one row per word, without bound."""
    words = lines.select(F.explode(F.split(F.lower("value"), r"[^\p{L}\p{N}']+")).alias("word"))
    counts = words.where(F.col("word") != "").groupBy("word").count()
    return counts.select("word", F.col("count").alias("occurrences"))
