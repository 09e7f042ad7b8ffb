"""The one Spark session of a test run, configured as a driver's."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.spec.environment import DriverSize, EnvironmentSpec, Resources
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Environment, Pipeline, Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shared_session(folder: Path) -> SparkSession:
    """Start it; two cores, so that two tasks really run at once."""
    from tidemill.engine.session import start_session

    # As a driver does: else each of its lines is in the log of a test that failed.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    size = DriverSize(driver=Resources(cores=2, memory=2**30))
    environment = EnvironmentSpec(root="data", sizes={"small": size})
    spec = PipelineSpec.model_validate(
        {
            "description": "The session of the tests.",
            "owner": "tests",
            "source": {"rate": {}},
            "sinks": [{"console": {}}],
        }
    )
    where = Environment("tests", folder / "tests.yaml", environment, Project(folder))
    return start_session(Pipeline("tests", spec, where))
