"""What the global options of one command line say, and what they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

    from tidemill.control.plane import ControlPlane
    from tidemill.spec.project import Environment, Pipeline, Project


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

    def project(self) -> Project:
        """The project folder."""
        from tidemill.spec.project import find_project

        return find_project(self.project_folder)

    def environment(self) -> Environment:
        """The environment."""
        from tidemill.spec.project import load_environment
        from tidemill.storage.access import open_storage

        environment = load_environment(self.project(), self.environment_name)
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
