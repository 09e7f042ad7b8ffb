"""A copy of a pipeline for drills: the same declaration, with a separate storage root and separate drivers.

Its root is inside the live root, so it has its own checkpoint, tables, epochs, holds and audit, and no path
to the live ones. Its environment file is next to the locks of its drivers. These are processes of this
machine, or of the pod in which the game day runs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import yaml

from tidemill.checkpoint.own_place import check_own_place
from tidemill.control.game_day.rule import why_not
from tidemill.control.local.slot_lock import try_lock
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.control.procedures.parts import fork_into
from tidemill.control.procedures.run import Asking, act, plan_verb
from tidemill.errors import GateRefusedError, UnavailableError, UsageError
from tidemill.spec.project import Environment, Pipeline, load_environment, resolve_pipeline
from tidemill.storage.store import Store

# Settings of the live environment that the copy must not have: it emits no lineage, and its changes need no
# approval.
_LEFT_OUT = ("kubernetes", "lineage", "protected", "hygiene", "on_change")


@dataclass(frozen=True)
class Copy:
    """A copy, ready to be started.

    Args:
        pipeline: The pipeline in the copy's environment.
        plane: The control plane of the copy's root.
    """

    pipeline: Pipeline
    plane: ControlPlane


def check_playable(pipeline: Pipeline) -> None:
    """Raise if no game day can be run with the pipeline.

    Raises:
        GateRefusedError: TIDE-CTRL-090, in a protected environment.
        UsageError: TIDE-CTRL-091, with a pipeline whose copy would touch data that is not its own.
    """
    environment = pipeline.environment
    if environment.spec.protected:
        raise GateRefusedError(
            "TIDE-CTRL-090",
            "This environment is protected: no game day is played in it. Nothing was changed.",
            facts={"environment": environment.name, "pipeline": pipeline.name},
            fix="play it in an environment with the same pipelines that is not protected",
            runbook="game-day",
        )
    if reasons := why_not(pipeline):
        raise UsageError(
            "TIDE-CTRL-091",
            "A game day cannot be played with this pipeline. Nothing was changed.",
            facts={"pipeline": pipeline.name, "because": "; ".join(reasons)},
            fix="name another one: a stream that reads topics, or files by a URI, and writes tables only",
            runbook="game-day",
        )


@contextmanager
def copied(pipeline: Pipeline, asking: Asking) -> Iterator[Copy]:
    """Yield a copy of a pipeline in its current state; the copy is deleted after the block.

    1. Allow one game day for each pipeline at a time. 2. Remove the remains of a killed one. 3. Fork, as the
    operation does; the last step asks the gate. 4. End the driver, then delete the files.

    Raises:
        UnavailableError: TIDE-CTRL-092, if another game day runs.
        GateRefusedError: TIDE-CTRL-094, if a link is in the place of the copy.
        TidemillError: Reason why the fork is not possible, as for the operation.
    """
    check_playable(pipeline)
    store, environment = Store(pipeline.layout.root), _environment_of(pipeline)
    environment.run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # 1.
    with try_lock(environment.run_folder / "game_day.lock") as descriptor:
        if descriptor is None:
            raise UnavailableError(
                "TIDE-CTRL-092",
                "Another game day is played with this pipeline.",
                facts={"pipeline": pipeline.name, "lock": environment.run_folder / "game_day.lock"},
                fix="wait for its end",
                runbook="game-day",
            )
        copy = Copy(resolve_pipeline(environment, pipeline.name), open_control_plane(environment))
        # 2.
        check_own_place(pipeline.layout.game_day(pipeline.name), "game-day")
        _remove(store, copy)
        try:
            # 3.
            planned = plan_verb(asking, fork_into(pipeline, copy.pipeline), pipeline.name)
            act(copy.plane, asking, planned)
            yield copy
        finally:
            # 4.
            _remove(store, copy)
            environment.file.unlink(missing_ok=True)
            # Last, because it contains the lock; after this the next game day may begin.
            shutil.rmtree(environment.run_folder, ignore_errors=True)


def _environment_of(pipeline: Pipeline) -> Environment:
    """Return the copy's environment, always under the same name, so that remains are found again."""
    live = pipeline.environment
    root = live.layout.game_day(pipeline.name)
    text = yaml.safe_load(live.file.read_text())
    told = {key: value for key, value in text.items() if key not in _LEFT_OUT}
    name = f"game-day-{hashlib.sha256(root.encode()).hexdigest()[:12]}"
    file = live.run_folder / f"{name}.yaml"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if "sizes" in told:
        # A local driver works without executors.
        told["sizes"] = {size: {"driver": each.get("driver", {})} for size, each in told["sizes"].items()}
    if live.secrets_folder is not None:
        told["secrets"] = {"folder": str(live.secrets_folder)}
    file.write_text(yaml.safe_dump({**told, "runtime": "local", "root": root}))
    return replace(load_environment(live.project, str(file)), run_root=live.run_root)


def _remove(store: Store, copy: Copy) -> None:
    """End the copy's drivers, then delete all files below its root."""
    name, root = copy.pipeline.name, copy.pipeline.layout.root
    for driver in (copy.plane.running(name), copy.plane.running(name, "backfill")):
        if driver is not None:
            copy.plane.runtime.kill(driver)
    store.delete_folder(root)
