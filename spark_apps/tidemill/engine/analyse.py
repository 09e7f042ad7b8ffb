"""`python -m tidemill.engine.analyse --pipeline NAME`: store facts about the rows, for backfill plans.

The result lists the mistakes of the transform and the sinks that cannot take its rows. Every driver makes the
same checks at its start. This process makes them for code that no driver has run yet.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pyspark.sql import SparkSession

from tidemill.backfill.row_origin import keep_origin
from tidemill.engine.discovery import known_columns
from tidemill.engine.flow import Collectors, Flow, build_flow
from tidemill.engine.models import with_models
from tidemill.engine.outputs import build_output
from tidemill.engine.verb_process import run_part
from tidemill.errors import SpecError, TidemillError, UnavailableError
from tidemill.payload.quarantine import Quarantine
from tidemill.sources.read import read_streams
from tidemill.spec.project import Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import find_project
from tidemill.storage.store import Store


def analyse(spark: SparkSession, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Build the pipeline's flow as for a stream, without reading, and store the proven origin of its rows.

    Returns:
        Findings in the transform, the sinks and existing tables, as `TidemillError.as_document`, with
        `warns`.
    """
    layout = pipeline.layout
    quarantine = Quarantine.at(spark.sparkContext, layout.quarantine(pipeline.name), "analysis")
    store = Store(layout.root)
    collectors = Collectors(quarantine, None, known_columns(spark.sparkContext, store, pipeline).columns)
    flow = build_flow(pipeline, read_streams(spark, pipeline), collectors)
    keep_origin(store, pipeline, flow.origin)
    of_transform = [{**finding.error.as_document(), "warns": finding.rule.warns} for finding in flow.findings]
    of_sinks = [
        found for place in range(len(pipeline.spec.sinks)) if (found := _check_sink(pipeline, flow, place))
    ]
    return [*of_transform, *of_sinks]


def _check_sink(pipeline: Pipeline, flow: Flow, place: int) -> dict[str, Any] | None:
    """Return the reason why a sink cannot take the rows; None if it can. An unavailable sink only warns."""
    try:
        build_output(pipeline, flow, place).check()
    except TidemillError as error:
        return {**error.as_document(), "warns": isinstance(error, UnavailableError)}
    return None


def check_same_definition(arguments: argparse.Namespace) -> Pipeline:
    """Return the pipeline as it is defined where Spark runs.

    Raises:
        SpecError: TIDE-SPEC-043, if its definition differs from the one where the part was requested.
    """
    environment = load_environment(find_project(arguments.project), arguments.env)
    pipeline = resolve_pipeline(environment, arguments.pipeline)
    if pipeline.definition_digest != arguments.definition:
        raise SpecError(
            "TIDE-SPEC-043",
            "Where Spark runs, the pipeline is another one than where it is planned.",
            facts={
                "pipeline": pipeline.name,
                "planned_for": arguments.definition,
                "found": pipeline.definition_digest,
            },
            fix="deploy the same project, images included, to both places",
        )
    return pipeline


def _act(spark: SparkSession, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    pipeline = check_same_definition(arguments)
    return analyse(spark, with_models(pipeline, Store(pipeline.layout.root)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tidemill.engine.analyse", description=__doc__)
    parser.add_argument("--definition", required=True)
    # Part of the name of the part, because another release may find other problems in the same code.
    parser.add_argument("--release", required=True)
    sys.exit(run_part(parser, _act))
