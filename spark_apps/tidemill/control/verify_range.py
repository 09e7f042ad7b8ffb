"""Comparing a range with its tables: Spark does it, where Spark is."""

from __future__ import annotations

import json

from tidemill.backfill.difference import Difference
from tidemill.backfill.plan import BackfillPlan
from tidemill.control.plane import ControlPlane
from tidemill.control.spark_part import run_part
from tidemill.ledger.read import open_table
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.spec.project import Pipeline


def verify_range(plane: ControlPlane, pipeline: Pipeline, plan: BackfillPlan) -> list[Difference]:
    """Compute what a plan's records are made into, and compare with the tables as they are now.

    Asked again of the same versions, the answer is the one that is kept. A stream that goes on beside it adds
    nothing to the range.

    Raises:
        TidemillError: What the part could not do; see `run_part` and `engine/verify.py`.
    """
    arguments = ["--plan", plan.digest, "--versions", json.dumps(newest(pipeline))]
    return [Difference.model_validate(found) for found in run_part(plane, pipeline, "verify", arguments)]


def newest(pipeline: Pipeline) -> dict[str, int | None]:
    """Version of each table of a pipeline, and of its quarantine; None where there is none yet."""
    layout = pipeline.layout
    paths = {sink.table: layout.table(sink.table) for sink in pipeline.spec.delta_sinks}
    paths[QUARANTINE_OUTPUT] = layout.quarantine(pipeline.name)
    tables = {name: open_table(path) for name, path in paths.items()}
    return {name: None if table is None else table.version() for name, table in tables.items()}
