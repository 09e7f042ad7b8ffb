"""What the global options of one command line say, and what they lead to."""

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


# The beginning of a command without global options.
_BARE_COMMAND = re.compile(r"\btidemill (?=[a-z])")


@dataclass
class Invocation:
    """Global options. Not frozen: the entry point makes it, the option parser fills it.

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
        """How a command line with the same global options begins."""
        project = ["--project", self.project_folder] if self.project_folder else []
        environment = ["--env", self.environment_name] if self.environment_name else []
        return ["tidemill", *project, *environment]

    def command(self, *words: str) -> str:
        """A command with the same global options, to be typed in a shell."""
        return shlex.join([*self.words, *words])

    def completed(self, text: str) -> str:
        """A text whose commands are to be typed in a shell: with the same global options."""
        return _BARE_COMMAND.sub(lambda _: f"{self.command()} ", text)

    def project(self) -> Project:
        """The project folder."""
        from tidemill.spec.project_folder import find_project

        return find_project(self.project_folder)

    def environment(self, name: str = "") -> Environment:
        """The environment, or another one of the project."""
        from tidemill.spec.project import load_environment
        from tidemill.storage.access import open_storage

        environment = load_environment(self.project(), name or self.environment_name)
        open_storage(environment)
        return environment

    def pipeline(self, name: str) -> Pipeline:
        """A pipeline in the environment."""
        from tidemill.spec.project import resolve_pipeline

        return resolve_pipeline(self.environment(), name)

    def control_plane(self) -> ControlPlane:
        """Where drivers run and what is known of them."""
        from tidemill.control.plane import open_control_plane

        return open_control_plane(self.environment())


def invocation_of(context: typer.Context) -> Invocation:
    """The invocation that a verb belongs to."""
    found = context.find_object(Invocation)
    return found if found is not None else Invocation()
