"""The process of a part: `python -m PROGRAM --pipeline NAME --run-id ID …` leaves its result on storage."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from tidemill.engine.classify import classify
from tidemill.engine.part_result import PartResult, document_of, write_part_result
from tidemill.errors import InternalError, TidemillError
from tidemill.failed_at import trace_of
from tidemill.spec.project import Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import find_project
from tidemill.storage.access import open_storage
from tidemill.storage.store import Store

Work = Callable[[Pipeline, argparse.Namespace], Any]


def run_process(parser: argparse.ArgumentParser, work: Work) -> int:
    """Do a part's work, write its answer or error to the storage, and return the exit code."""
    parser.add_argument("--project")
    parser.add_argument("--env")
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--run-id", required=True)
    arguments = parser.parse_args()
    try:
        environment = load_environment(find_project(arguments.project), arguments.env)
        open_storage(environment)
        pipeline = resolve_pipeline(environment, arguments.pipeline)
        result, exit_code = _result(pipeline, arguments, work)
        write_part_result(Store(pipeline.layout.root), pipeline.layout, pipeline.name, result)
    except TidemillError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except Exception as error:  # noqa: BLE001  # an entry point: no Java, no memory, or a bug
        sys.stderr.write(f"{trace_of(error)}\n{classify(error)}\n")
        return 1
    return exit_code


def _result(pipeline: Pipeline, arguments: argparse.Namespace, work: Work) -> tuple[PartResult, int]:
    try:
        return PartResult(run_id=arguments.run_id, answer=work(pipeline, arguments)), 0
    except Exception as error:
        known = error if isinstance(error, TidemillError) else classify(error)
        if isinstance(known, InternalError):
            raise
        sys.stderr.write(f"{known}\n")
        return PartResult(run_id=arguments.run_id, error=document_of(known)), known.exit_code
