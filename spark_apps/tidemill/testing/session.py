"""The Spark session of a test run: a driver's session, except that Spark interprets its plans.

Compiling Java for a query that runs once on a few rows takes longer than the query: about an eighth of a test
run. Drivers that tests start as separate processes do compile.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.spec.environment import DriverSize, EnvironmentSpec, Resources
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Environment, Pipeline
from tidemill.spec.project_folder import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Spark's settings: no code generation for whole stages or for single expressions.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def shared_session(folder: Path) -> SparkSession:
    """Start the session of a test run."""
    session = driver_session(folder)
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    return session


def driver_session(folder: Path) -> SparkSession:
    """Start a session with the settings of a driver.

    It has two cores, so that two tasks really run at once.
    """
    from tidemill.engine.session import start_session

    # Set the same level as a driver. Otherwise all lines of py4j would be in the log of a failed test.
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
