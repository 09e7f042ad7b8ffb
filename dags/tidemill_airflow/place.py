"""Which project and environment the DAGs of this Airflow run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import SpecError
from tidemill.spec.project import ENVIRONMENT_VARIABLE, PROJECT_VARIABLE, Project, load_environment

if TYPE_CHECKING:
    from tidemill.control.plane import ControlPlane
    from tidemill.spec.environment import EnvironmentSpec


@dataclass(frozen=True)
class Place:
    """A project folder and one of its environments: plain text, so that it can wait in a database."""

    project: str
    environment: str

    def open(self) -> ControlPlane:
        """The control plane; for tasks and triggers only, never while DAG files are parsed."""
        # Storage clients take half a second to import; parsing needs none of them.
        from tidemill.control.plane import open_control_plane

        return open_control_plane(load_environment(Project(Path(self.project)), self.environment))

    @property
    def environment_name(self) -> str:
        """What people call the environment, also one that is named by its file."""
        return Path(self.environment).stem

    def declared(self) -> EnvironmentSpec | None:
        """The environment as it is declared; None if it cannot be read, of which reconciliation tells."""
        try:
            return load_environment(Project(Path(self.project)), self.environment).spec
        except SpecError:
            return None

    def as_document(self) -> dict[str, str]:
        """Plain data."""
        return asdict(self)


def place_of(dag_file: str, variables: Mapping[str, str] = os.environ) -> Place:
    """TIDEMILL_PROJECT and TIDEMILL_ENV; else the repository that holds the DAG file, and `local`."""
    repository = Path(dag_file).resolve().parents[1]
    return Place(
        project=str(Path(variables.get(PROJECT_VARIABLE) or repository).resolve()),
        environment=variables.get(ENVIRONMENT_VARIABLE) or "local",
    )
