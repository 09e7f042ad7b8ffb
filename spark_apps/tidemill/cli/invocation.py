"""The global options of one command line, and the project, environment and pipelines that they select."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from tidemill.control.plane import ControlPlane
    from tidemill.spec.project import Environment, Pipeline
    from tidemill.spec.project_folder import Project


# Start of a command without global options.
_BARE_COMMAND = re.compile(r"\btidemill (?=[a-z])")


@dataclass
class Invocation:
    """Global options. Not frozen, because the entry point creates it and the option parser fills it.

    Args:
        project_folder: `--project`.
        environment_name: `--env`.
        debug: `--debug`.
    """

    project_folder: str | None = None
    environment_name: str | None = None
    debug: bool = False

    @property
    def words(self) -> list[str]:
        """Return the first words of a command line with the same global options."""
        project = ["--project", self.project_folder] if self.project_folder else []
        environment = ["--env", self.environment_name] if self.environment_name else []
        return ["tidemill", *project, *environment]

    def command(self, *words: str) -> str:
        """Return a shell command with the same global options."""
        return shlex.join([*self.words, *words])

    def completed(self, text: str) -> str:
        """Return a text with the same global options added to its commands."""
        return _BARE_COMMAND.sub(lambda _: f"{self.command()} ", text)

    def project(self) -> Project:
        """Return the project folder."""
        from tidemill.spec.project_folder import find_project

        return find_project(self.project_folder)

    def environment(self, name: str = "") -> Environment:
        """Return the selected environment, or the one named `name`."""
        from tidemill.spec.project import load_environment
        from tidemill.storage.access import open_storage

        environment = load_environment(self.project(), name or self.environment_name)
        open_storage(environment)
        return environment

    def pipeline(self, name: str) -> Pipeline:
        """Return a pipeline in the environment."""
        from tidemill.spec.project import resolve_pipeline

        return resolve_pipeline(self.environment(), name)

    def control_plane(self) -> ControlPlane:
        """Return the control plane of the environment."""
        from tidemill.control.plane import open_control_plane

        return open_control_plane(self.environment())


def invocation_of(context: typer.Context) -> Invocation:
    """Return the invocation of a command."""
    found = context.find_object(Invocation)
    return found if found is not None else Invocation()
