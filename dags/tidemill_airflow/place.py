"""The project and environment that the DAGs of this Airflow run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.airflow_names import name_beside
from tidemill.errors import SpecError
from tidemill.names import ENVIRONMENT_PATTERN
from tidemill.spec.project import ENVIRONMENT_VARIABLE, load_environment
from tidemill.spec.project_folder import PROJECT_VARIABLE, Project
from tidemill_airflow.workers import refuse_remote_workers

if TYPE_CHECKING:
    from tidemill.control.plane import ControlPlane
    from tidemill.spec.environment import EnvironmentSpec


# This file, in the folder of a second environment's DAG files, names that environment.
BESIDE_FILE = ENVIRONMENT_VARIABLE


@dataclass(frozen=True)
class Place:
    """A project folder and one of its environments, as plain text that can be stored in a database.

    Args:
        project: The project folder.
        environment: A name in `conf/environments`, or a file.
        beside: The environment's name if the same Airflow also has the DAGs of another environment. Triggers
            that were stored before this field existed do not have it.
    """

    project: str
    environment: str
    beside: str = ""

    def dag_id(self, dag_id: str) -> str:
        """Return the DAG's id in this environment."""
        return name_beside(dag_id, self.beside)

    def open(self) -> ControlPlane:
        """Return the control plane; for tasks and triggers only, never during DAG parsing.

        Raises:
            UsageError: TIDE-CTRL-062, if drivers are processes of a machine that the tasks do not share.
            TidemillError: If the environment is wrong, or its cluster is unreachable.
        """
        # Storage clients take half a second to import, and parsing needs none of them.
        from tidemill.control.kubernetes.cluster_access import use_connections
        from tidemill.control.plane import open_control_plane
        from tidemill_airflow.cluster_connection import settings_by

        environment = load_environment(Project(Path(self.project)), self.environment)
        refuse_remote_workers(environment)
        use_connections(settings_by)
        return open_control_plane(environment)

    @property
    def environment_name(self) -> str:
        """Return the environment's name, also if it is given as a file."""
        return Path(self.environment).stem

    def declared(self) -> EnvironmentSpec | None:
        """Return the declared environment; None if it cannot be read, which reconciliation reports."""
        try:
            return load_environment(Project(Path(self.project)), self.environment).spec
        except SpecError:
            return None

    def as_document(self, variables: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return plain data for a trigger, without the values that its process has itself.

        The triggerer is another process, perhaps on another machine with another mount point of the project.
        """
        known = asdict(_own_place(variables))
        return {key: value for key, value in asdict(self).items() if value != known[key]}


def place_from(document: Mapping[str, str], variables: Mapping[str, str] = os.environ) -> Place:
    """Return the place of a document in this process."""
    return Place(**{**asdict(_own_place(variables)), **document})


def place_of(dag_file: str, variables: Mapping[str, str] = os.environ) -> Place:
    """Return the place of a DAG file.

    The project and environment are TIDEMILL_PROJECT and TIDEMILL_ENV, else the file's repository and `local`.
    A folder of DAG files, or of links to them, that has a file TIDEMILL_ENV belongs to a second environment.

    Raises:
        SpecError: TIDE-CTRL-073, if that file does not hold a name.
    """
    # Do not resolve links, because links in another folder belong to another environment.
    beside = _environment_beside(Path(dag_file).parent / BESIDE_FILE)
    repository = Path(dag_file).resolve().parents[1]
    return Place(
        project=str(Path(variables.get(PROJECT_VARIABLE) or repository).resolve()),
        environment=beside or variables.get(ENVIRONMENT_VARIABLE) or "local",
        beside=beside,
    )


def _own_place(variables: Mapping[str, str]) -> Place:
    """Return the place of a DAG file in this package's parent folder."""
    return place_of(str(Path(__file__).parent), variables)


def _environment_beside(file: Path) -> str:
    if not file.is_file():
        return ""
    # Longer than any valid name, so that a large file is not read completely.
    with file.open(encoding="utf-8", errors="replace") as opened:
        named = opened.read(200).strip()
    if re.fullmatch(ENVIRONMENT_PATTERN, named) is None:
        raise SpecError(
            "TIDE-CTRL-073",
            "This file must hold the name of an environment, and nothing else.",
            facts={"file": file, "found": ascii(named[:80])},
            fix="write the name of a file in conf/environments/ into it, without the ending",
        )
    return named
