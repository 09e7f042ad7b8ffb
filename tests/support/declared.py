"""A resolved pipeline from a declaration in the test, without files and without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidemill.spec.environment import EnvironmentSpec
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Environment, Pipeline
from tidemill.spec.project_folder import Project


def declared(
    folder: Path, name: str = "orders", environment: dict[str, Any] | None = None, **keys: Any
) -> Pipeline:
    """Return a pipeline that reads the topic `orders` into `bronze/orders`, unless `keys` say otherwise."""
    document = {
        "description": "A test.",
        "owner": "tests",
        "source": {"kafka": {"topic": "orders"}},
        "sinks": [{"delta": {"table": "bronze/orders"}}],
        **keys,
    }
    spec = {"root": "data", "kafka": {"bootstrap_servers": "localhost:1"}, **(environment or {})}
    where = Environment("tests", folder / "tests.yaml", EnvironmentSpec.model_validate(spec), Project(folder))
    return Pipeline(name, PipelineSpec.model_validate(document), where)
