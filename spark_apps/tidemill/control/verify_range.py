"""Comparing a range with its tables: Spark does it, where Spark is."""

from __future__ import annotations

import json

from tidemill.backfill.compared import compared_now
from tidemill.backfill.plan import BackfillPlan
from tidemill.control.plane import ControlPlane
from tidemill.control.spark_part import run_part
from tidemill.ledger.difference import Difference
from tidemill.spec.project import Pipeline


def verify_range(plane: ControlPlane, pipeline: Pipeline, plan: BackfillPlan) -> list[Difference]:
    """Compute what a plan's records are made into, and compare with the tables as they are now.

    Rows that wait to be published are compared where they are staged. Asked again of the same versions, the
    answer is the one that is kept. A stream that goes on beside it adds nothing to the range.

    Raises:
        TidemillError: What the part could not do; see `run_part` and `engine/verify.py`.
    """
    compared = compared_now(plane.store, pipeline, plan)
    arguments = ["--plan", plan.digest, "--versions", json.dumps(compared.versions)]
    if compared.layout != pipeline.layout:
        arguments += ["--staged", compared.layout.root.rpartition("/")[2]]
    return [Difference.model_validate(found) for found in run_part(plane, pipeline, "verify", arguments)]
