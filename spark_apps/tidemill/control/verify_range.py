"""Compare a range with its tables, in a Spark job."""

from __future__ import annotations

import json

from tidemill.backfill.compared import compared_now
from tidemill.backfill.plan import BackfillPlan
from tidemill.control.plane import ControlPlane
from tidemill.control.spark_part import run_part
from tidemill.ledger.difference import Difference
from tidemill.spec.project import Pipeline


def verify_range(plane: ControlPlane, pipeline: Pipeline, plan: BackfillPlan) -> list[Difference]:
    """Compute the rows of a plan's records again, and compare them with the current tables.

    Rows that wait to be published are compared with the staging tables. Repeated for the same versions, the
    stored answer is returned. A stream that runs at the same time adds nothing to the range.

    Raises:
        TidemillError: Error of the Spark job; see `run_part` and `engine/verify.py`.
    """
    compared = compared_now(plane.store, pipeline, plan)
    arguments = ["--plan", plan.digest, "--versions", json.dumps(compared.versions)]
    if compared.layout != pipeline.layout:
        arguments += ["--staged", compared.layout.root.rpartition("/")[2]]
    return [Difference.model_validate(found) for found in run_part(plane, pipeline, "verify", arguments)]
