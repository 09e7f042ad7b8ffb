"""A part of a verb that needs Spark: `python -m tidemill.engine.<part> --pipeline NAME …`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession

from tidemill.engine.session import start_session
from tidemill.errors import TidemillError
from tidemill.spec.project import find_project, load_environment, resolve_pipeline
from tidemill.storage.access import open_storage


def run_part(parser: argparse.ArgumentParser, act: Callable[[SparkSession, argparse.Namespace], None]) -> int:
    """Start Spark as a driver of the pipeline would, act, and stop it; returns the exit code."""
    parser.add_argument("--project")
    parser.add_argument("--env")
    parser.add_argument("--pipeline", required=True)
    arguments = parser.parse_args()
    try:
        environment = load_environment(find_project(arguments.project), arguments.env)
        open_storage(environment)
        spark = start_session(resolve_pipeline(environment, arguments.pipeline))
        try:
            act(spark, arguments)
        finally:
            # A process with a live JVM does not exit.
            spark.stop()
    except TidemillError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0
