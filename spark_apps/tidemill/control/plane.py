"""The control plane of one environment: its document store and its runtime."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tidemill.checkpoint.root_owner import RootOwner, read_owner
from tidemill.control.decide.endings import Ending, ending_of
from tidemill.control.decide.remembered import History
from tidemill.control.driver_command import driver_command
from tidemill.control.local.local_runtime import CommandBuilder, LocalRuntime
from tidemill.control.ownership import as_owner, own_root
from tidemill.control.runtime import MainSlot, Runtime, Slot, StartedDriver, is_held
from tidemill.errors import TidemillError, UsageError
from tidemill.names import Layout
from tidemill.spec.pod import kubernetes_of
from tidemill.spec.project import Environment
from tidemill.storage.access import open_storage
from tidemill.storage.store import Store

# `module:function` that builds a driver's command line, for a wrapper such as nice or systemd-run.
COMMAND_VARIABLE = "TIDEMILL_DRIVER_COMMAND"


@dataclass(frozen=True)
class ControlPlane:
    """The inputs of start, stop and reconcile.

    Args:
        environment: The environment with its declarations.
        store: Store of its documents.
        runtime: Runtime of its drivers.
        dag_run: The active DAG run, for the logs of streams that it starts; empty outside of Airflow.
    """

    environment: Environment
    store: Store
    runtime: Runtime
    dag_run: str = ""

    @property
    def layout(self) -> Layout:
        """Return the paths below the storage root."""
        return self.environment.layout

    def own(self) -> None:
        """Raise unless this control plane owns the storage root; call this before any change there.

        Raises:
            GateRefusedError: TIDE-CTRL-010, -011.
            DataError: TIDE-CTRL-012.
        """
        own_root(self.store, self.layout, self.as_owner())

    def as_owner(self) -> RootOwner:
        """Return this control plane as the owner of a root."""
        return as_owner(self.runtime.identity(), self.environment.spec.runtime)

    def foreign_owner(self) -> RootOwner | None:
        """Return another control plane that owns the root; None if this one or none owns it."""
        standing = read_owner(self.store, self.layout)
        return None if standing is None or standing.id == self.runtime.identity().id else standing

    def look_at(self, pipeline: str) -> MainSlot | TidemillError:
        """Return the content of a main slot, or the error if it cannot be read."""
        try:
            return MainSlot(self.runtime.last_start(pipeline), self.runtime.memory(pipeline).read())
        except TidemillError as error:
            return error

    def held_pipelines(self) -> list[str]:
        """Return the pipelines whose main slot is held, declared or not."""
        return sorted(name for name, slot in self.runtime.main_slots().items() if is_held(slot))

    def running(self, pipeline: str, slot: Slot = "main") -> StartedDriver | None:
        """Return the driver that runs in a slot now."""
        start = self.runtime.last_start(pipeline, slot)
        return start if start is not None and start.alive else None

    def history(self, pipeline: str) -> History:
        """Return the endings of the pipeline's drivers and its kept version."""
        return History(self.runtime.memory(pipeline))

    def last_ending(self, pipeline: str, slot: Slot = "main") -> Ending | None:
        """Return the end of the slot's newest driver; None if it runs or there was none."""
        start = self.runtime.last_start(pipeline, slot)
        return None if start is None or start.alive else self.ending_of(start)

    def ending_of(self, ended: StartedDriver) -> Ending:
        """Return the end of a driver that no longer runs."""
        return ending_of(self.store, self.layout, ended)


def open_control_plane(environment: Environment, variables: Mapping[str, str] = os.environ) -> ControlPlane:
    """Return the control plane of an environment. If the storage root is a local folder, create it."""
    open_storage(environment)
    return ControlPlane(environment, Store(environment.layout.root), _runtime(environment, variables))


def _runtime(environment: Environment, variables: Mapping[str, str]) -> Runtime:
    if environment.spec.runtime == "local":
        return LocalRuntime(environment, _command_builder(variables), variables)
    # The client's import takes more than a second; only environments on Kubernetes need it.
    from tidemill.control.kubernetes.client import KubernetesClient
    from tidemill.control.kubernetes.kubernetes_runtime import KubernetesRuntime

    settings = kubernetes_of(environment)
    return KubernetesRuntime(environment, KubernetesClient(settings.namespace, settings.connection))


def _command_builder(variables: Mapping[str, str]) -> CommandBuilder:
    named = variables.get(COMMAND_VARIABLE)
    if not named:
        return driver_command
    module, _, function = named.partition(":")
    try:
        return cast(CommandBuilder, getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            "TIDE-CTRL-004",
            "The command builder of drivers cannot be imported.",
            facts={COMMAND_VARIABLE: named, "cause": error},
            fix="name it as module:function, importable here, or unset the variable",
        ) from error
