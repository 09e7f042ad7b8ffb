"""A part of a verb that needs Spark: `python -m tidemill.engine.<part> --pipeline NAME --run-id ID …`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from tidemill.engine.classify import classify
from tidemill.engine.part_result import PartResult, document_of, write_part_result
from tidemill.engine.session import start_session
from tidemill.errors import InternalError, TidemillError
from tidemill.spec.project import Pipeline, find_project, load_environment, resolve_pipeline
from tidemill.storage.access import open_storage
from tidemill.storage.store import Store

Act = Callable[[SparkSession, argparse.Namespace], Any]


def run_part(parser: argparse.ArgumentParser, act: Act) -> int:
    """Start Spark in this process alone, act, and leave the result; returns the exit code."""
    parser.add_argument("--project")
    parser.add_argument("--env")
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--run-id", required=True)
    arguments = parser.parse_args()
    try:
        environment = load_environment(find_project(arguments.project), arguments.env)
        open_storage(environment)
        pipeline = resolve_pipeline(environment, arguments.pipeline)
        result, exit_code = _result(pipeline, arguments, act)
        write_part_result(Store(pipeline.layout.root), pipeline.layout, pipeline.name, result)
    except TidemillError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return exit_code


def _result(pipeline: Pipeline, arguments: argparse.Namespace, act: Act) -> tuple[PartResult, int]:
    try:
        return PartResult(run_id=arguments.run_id, answer=_with_spark(pipeline, arguments, act)), 0
    except Exception as error:
        known = error if isinstance(error, TidemillError) else classify(error)
        if isinstance(known, InternalError):
            # No Java, no memory, a mistake of ours: the whole trace is worth more, in the log.
            raise
        sys.stderr.write(f"{known}\n")
        return PartResult(run_id=arguments.run_id, error=document_of(known)), known.exit_code


def _with_spark(pipeline: Pipeline, arguments: argparse.Namespace, act: Act) -> Any:
    spark = start_session(pipeline)
    try:
        return act(spark, arguments)
    finally:
        # A process with a live JVM does not exit.
        spark.stop()
