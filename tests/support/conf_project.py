"""A project folder whose conf files a test writes, and the errors found in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import SpecError, TidemillError
from tidemill.spec.project import Environment, Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project

ENVIRONMENT = """
root: .data
kafka: {bootstrap_servers: "localhost:1"}
sizes: {small: {driver: {cores: 1, memory: 1g}}}
"""

# Valid, and with every part that other tests change.
PIPELINE = """
description: Orders as they came.
owner: tests
source:
  kafka:
    topic: orders
payload:
  json: {schema: order.json}
event_time: {column: at, watermark: 10 minutes}
sinks:
  - delta: {table: bronze/orders}
run:
  trigger: 5 seconds
"""

SCHEMA = """
{
  "type": "object",
  "properties": {"id": {"type": "string"}, "at": {"type": "string", "format": "date-time"}},
  "required": ["id"]
}
"""

TRANSFORM = """
def transform(orders):
    return orders
"""


class ConfProject:
    """One valid pipeline, `orders`, until a test changes a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("conf/environments/local.yaml", ENVIRONMENT)
        self.write("conf/pipelines/orders.yaml", PIPELINE)
        self.write("conf/schemas/order.json", SCHEMA)
        self.write("spark_apps/transforms/orders.py", TRANSFORM)

    def write(self, path: str, content: str | bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def replace(self, old: str, new: str) -> None:
        """Change the pipeline file."""
        assert old in PIPELINE
        self.write("conf/pipelines/orders.yaml", PIPELINE.replace(old, new))

    def load(self) -> Environment:
        return load_environment(Project(self.folder), "local", {})

    def resolve(self, name: str = "orders") -> Pipeline:
        return resolve_pipeline(self.load(), name)

    def refusal(self, name: str = "orders") -> SpecError:
        """Return the error with which the pipeline or its environment is refused."""
        with pytest.raises(TidemillError) as caught:
            self.resolve(name)
        assert isinstance(caught.value, SpecError)
        return caught.value
