"""The pipeline file that a test names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidemill.errors import UsageError
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project_folder import Project


@dataclass(frozen=True)
class Declared:
    """A parsed pipeline file."""

    project: Project
    name: str
    spec: PipelineSpec


def find_declared(file: Path) -> Declared:
    """Read a pipeline file of a project.

    Raises:
        UsageError: TIDE-TEST-005, if it is not in the `conf/pipelines` of a project.
        SpecError: If it is wrong, or missing.
    """
    path = file.absolute()
    if path.parent.parts[-2:] != ("conf", "pipelines") or path.suffix != ".yaml":
        raise UsageError(
            "TIDE-TEST-005",
            "This is not the file of a pipeline.",
            facts={"file": path},
            fix="name a file such as conf/pipelines/orders.yaml; its project has the transforms and schemas",
        )
    project = Project(path.parents[2])
    return Declared(project, path.stem, project.load_pipeline(path.stem))
