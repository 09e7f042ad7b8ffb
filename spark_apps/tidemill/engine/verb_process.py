"""A part that needs Spark in a separate process: `python -m tidemill.engine.<part> --pipeline NAME …`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from tidemill.engine.part_process import run_process
from tidemill.engine.session import start_session
from tidemill.spec.project import Pipeline

Act = Callable[[SparkSession, argparse.Namespace], Any]


def run_part(parser: argparse.ArgumentParser, act: Act) -> int:
    """Start Spark in this process alone, act, write the result, and return the exit code."""
    return run_process(parser, partial(_with_spark, act))


def _with_spark(act: Act, pipeline: Pipeline, arguments: argparse.Namespace) -> Any:
    spark = start_session(pipeline)
    try:
        return act(spark, arguments)
    finally:
        # A process does not exit while its JVM is alive.
        spark.stop()
