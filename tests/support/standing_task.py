"""Tasks of a real Airflow that pause at a given function, so that a test can kill them there.

A plugin of that Airflow wraps the function when the task begins; nothing of the product knows of it. A moment
is used once: the next try of the task passes by.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pluggy import HookimplMarker

from tests.support.eventually import eventually
from tidemill.control.local.process_identity import ProcessIdentity

# Variable with the folder of requested moments, for Airflow's processes.
FOLDER_VARIABLE = "STANDING_TASKS"

# File with the seconds that a test changes in the processes of tasks, by `module:name`.
SETTINGS = "settings.json"

# Maximum seconds until a task has paused there. Its driver may have to finish a batch first.
REACH_TIMEOUT_SECONDS = 150

# Seconds until a task that was woken has ended.
GONE_TIMEOUT_SECONDS = 120

# The plugin's file, as Airflow finds it.
PLUGIN = """
from airflow.plugins_manager import AirflowPlugin

from tests.support import standing_task


class StandingTasks(AirflowPlugin):
    name = "standing_tasks"
    listeners = [standing_task]
"""

# Victim of a kill: the task's process, as by the out-of-memory killer; also the worker that supervises it,
# as when a machine is lost; or only the worker, and the task's process continues later, unsupervised.
Victim = Literal["task", "machine", "worker"]


@dataclass(frozen=True)
class Moment:
    """The moment at which a task is to stop.

    Args:
        dag_id: DAG of the task.
        task_id: The task.
        at: `module:name` of a function, as the caller finds it.
        when: Before or after the call.
        calls_before: Number of earlier calls without a stop.
    """

    dag_id: str
    task_id: str
    at: str
    when: Literal["before", "after"] = "before"
    calls_before: int = 0

    @property
    def name(self) -> str:
        return f"{self.dag_id}.{self.task_id}"


@dataclass(frozen=True)
class StandingTask:
    """The paused process of a task, and the worker that supervises it."""

    process: ProcessIdentity
    worker: ProcessIdentity
    run_id: str
    go: Path

    def kill(self, victim: Victim) -> None:
        """Send SIGKILL to the worker first, or it would report the task's end to Airflow."""
        if victim != "task":
            self.worker.signal(signal.SIGKILL)
        if victim != "worker":
            self.process.signal(signal.SIGKILL)

    def wake(self) -> None:
        """Let the task continue, and wait for its end."""
        self.go.touch()
        assert self.process.wait_until_gone(GONE_TIMEOUT_SECONDS)


class StandingTasks:
    """Requests of a test to the tasks of one Airflow."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "standing"
        self._folder.mkdir(parents=True)
        (home / "plugins").mkdir()
        (home / "plugins" / "standing_tasks.py").write_text(PLUGIN)
        self.variables = {FOLDER_VARIABLE: str(self._folder)}

    def ask(self, moment: Moment) -> None:
        """Request that the next task of this name pauses at this point."""
        for old in self._folder.glob(f"{moment.name}.*"):
            old.unlink()
        (self._folder / f"{moment.name}.json").write_text(json.dumps(asdict(moment)))

    def reached(self, moment: Moment) -> StandingTask:
        """Wait until a task has paused there."""
        file = self._folder / f"{moment.name}.reached"
        eventually(file.exists, f"{moment.name} stands at {moment.at}", REACH_TIMEOUT_SECONDS)
        told = json.loads(file.read_text())
        process, worker = (ProcessIdentity.of(told[name]) for name in ("task", "worker"))
        return StandingTask(process, worker, told["run_id"], self._folder / f"{moment.name}.go")

    def settle(self, **seconds: float) -> None:
        """Change constants, by `module:name`, in all tasks that begin from now on."""
        (self._folder / SETTINGS).write_text(json.dumps(seconds))


hookimpl = HookimplMarker("airflow")


@hookimpl
def on_task_instance_running(task_instance: Any) -> None:
    """Wrap the function at which the task is to pause; called in the task's process before its work."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    settings = folder / SETTINGS
    for place, seconds in json.loads(settings.read_text() if settings.exists() else "{}").items():
        owner, name = _found(place)
        setattr(owner, name, timedelta(seconds=seconds))
    file = folder / f"{task_instance.dag_id}.{task_instance.task_id}.json"
    if file.exists():
        _wrap(file, Moment(**json.loads(file.read_text())), task_instance.run_id)


def _wrap(file: Path, moment: Moment, run_id: str) -> None:
    owner, name = _found(moment.at)
    real, calls = getattr(owner, name), []

    def standing(*given: Any, **named: Any) -> Any:
        calls.append(1)
        is_here = len(calls) == moment.calls_before + 1
        if is_here and moment.when == "before":
            _stand(file, run_id)
        result = real(*given, **named)
        if is_here and moment.when == "after":
            _stand(file, run_id)
        return result

    setattr(owner, name, standing)


def _found(place: str) -> tuple[Any, str]:
    module, _, name = place.partition(":")
    *path, last = name.split(".")
    owner: Any = importlib.import_module(module)
    for part in path:
        owner = getattr(owner, part)
    return owner, last


def _stand(file: Path, run_id: str) -> None:
    try:
        # The task that gets the file stops; of several concurrent tasks, only one gets it.
        taken = file.rename(file.with_suffix(".taken"))
    except FileNotFoundError:
        return
    taken.write_text(json.dumps({"task": os.getpid(), "worker": os.getppid(), "run_id": run_id}))
    taken.rename(file.with_suffix(".reached"))
    # Wait here to be killed; only the file `.go` ends the wait otherwise.
    while not file.with_suffix(".go").exists():
        time.sleep(0.05)
