"""A rewrite of the state of a checkpoint with another number of partitions."""

from __future__ import annotations

import argparse
import sys

from pyspark.sql import SparkSession

from tidemill.engine.verb_process import run_part


def repartition_with_spark(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Add a batch to a stopped query's checkpoint that holds its state in the given number of partitions.

    Spark 4.2 has this for Classic sessions only, under a private name. With `enforce_exactly_once_sink`, an
    unfinished batch is an error; otherwise Spark would skip that batch.
    """
    # Access to the streams creates the coordinator of state stores, which the rewrite needs. A session that
    # has run no query has none.
    _ = spark.streams.active
    manager = spark._streamingCheckpointManager
    manager.repartition(checkpoint, partitions, enforce_exactly_once_sink=True)


def _act(spark: SparkSession, arguments: argparse.Namespace) -> None:
    repartition_with_spark(spark, arguments.checkpoint, arguments.partitions)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tidemill.engine.repartition", description=__doc__)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--partitions", required=True, type=int)
    sys.exit(run_part(parser, _act))
