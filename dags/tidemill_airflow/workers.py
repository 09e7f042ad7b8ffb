"""Check where tasks run: only tasks on the same machine can find local drivers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.errors import UsageError

if TYPE_CHECKING:
    from tidemill.spec.project import Environment

# The only executor of Airflow 3 whose tasks are processes on the scheduler's machine.
LOCAL_EXECUTOR = "LocalExecutor"

# Set by KubernetesExecutor in each task's pod, whose own setting often says LocalExecutor.
EXECUTOR_POD_VARIABLE = "AIRFLOW_IS_K8S_EXECUTOR_POD"


def refuse_remote_workers(environment: Environment, variables: Mapping[str, str] = os.environ) -> None:
    """Raise if drivers are local processes but tasks run on other machines.

    Raises:
        UsageError: TIDE-CTRL-062.
    """
    if environment.spec.runtime != "local":
        return
    from airflow.sdk.configuration import conf

    remote = remote_executor(conf.get("core", "executor"), variables)
    if remote:
        raise UsageError(
            "TIDE-CTRL-062",
            "Drivers are to be processes of this machine, and tasks run on other ones: a driver would end "
            "with its worker, and no other task would find it.",
            facts={"runtime": "local", "executor": remote, "environment": environment.file},
            fix=f"run Airflow with {LOCAL_EXECUTOR}, or drivers on Kubernetes: `runtime: kubernetes`",
            runbook="stream-does-not-start",
        )


def remote_executor(setting: str, variables: Mapping[str, str]) -> str:
    """Return the executor that runs tasks on other machines; empty if they run on the scheduler's machine.

    Args:
        setting: `core.executor`: names, `alias:path` or class paths, the default first; executors of teams
            follow after a semicolon.
        variables: Environment variables of this process.
    """
    if variables.get(EXECUTOR_POD_VARIABLE):
        return "KubernetesExecutor"
    default = setting.partition(";")[0].partition(",")[0].strip()
    name = default.rpartition(":")[2].rpartition(".")[2]
    return "" if name == LOCAL_EXECUTOR else name
