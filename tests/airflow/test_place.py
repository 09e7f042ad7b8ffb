"""Tasks and triggers find the project by names, because they may be processes on different machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.small_project import ENVIRONMENT, small_project
from tidemill.errors import UsageError
from tidemill_airflow.place import Place, place_from, place_of
from tidemill_airflow.workers import refuse_remote_workers, remote_executor

WORKER = {"TIDEMILL_PROJECT": "/opt/worker/project", "TIDEMILL_ENV": "/etc/worker/plant.yaml"}
TRIGGERER = {"TIDEMILL_PROJECT": "/srv/triggerer/project", "TIDEMILL_ENV": "/etc/triggerer/plant.yaml"}


def dag_file() -> str:
    """Return the path of a DAG file in the package's parent folder, where this repository keeps them."""
    import tidemill_airflow

    return str(Path(tidemill_airflow.__file__).parents[1] / "streams.py")


@pytest.mark.parametrize(
    ("of_task", "of_trigger", "there"),
    [
        (WORKER, TRIGGERER, Place("/srv/triggerer/project", "/etc/triggerer/plant.yaml")),
        ({}, {}, place_of(dag_file(), {})),
        # Two environments in one Airflow: what the variables do not say is in the document.
        (
            {**WORKER, "TIDEMILL_ENV": "north"},
            {**TRIGGERER, "TIDEMILL_ENV": "south"},
            Place("/srv/triggerer/project", "south"),
        ),
    ],
)
def test_a_trigger_finds_the_project_where_its_own_process_has_it(
    of_task: Mapping[str, str], of_trigger: Mapping[str, str], there: Place
) -> None:
    document = place_of(dag_file(), of_task).as_document(of_task)
    assert "/" not in json.dumps(document)
    assert place_from(document, of_trigger) == there


def test_what_no_variable_says_goes_along() -> None:
    north = Place("/opt/worker/project", "north")
    assert north.as_document(WORKER) == {"environment": "north"}
    assert place_from({"environment": "north"}, TRIGGERER) == Place("/srv/triggerer/project", "north")
    # Triggers of older releases store the whole place.
    whole = {"project": "/opt/project", "environment": "local"}
    assert place_from(whole, TRIGGERER) == Place("/opt/project", "local")


@pytest.mark.parametrize(
    ("setting", "variables", "remote"),
    [
        ("LocalExecutor", {}, ""),
        ("airflow.executors.local_executor.LocalExecutor", {}, ""),
        ("here:airflow.executors.local_executor.LocalExecutor,CeleryExecutor", {}, ""),
        ("LocalExecutor;team1=CeleryExecutor", {}, ""),
        ("CeleryExecutor,LocalExecutor", {}, "CeleryExecutor"),
        ("KubernetesExecutor", {}, "KubernetesExecutor"),
        ("away:my.module.EdgeExecutor", {}, "EdgeExecutor"),
        # Task pods often have an environment that says the executor is local.
        ("LocalExecutor", {"AIRFLOW_IS_K8S_EXECUTOR_POD": "True"}, "KubernetesExecutor"),
    ],
)
def test_an_executor_on_other_machines_is_known(
    setting: str, variables: Mapping[str, str], remote: str
) -> None:
    assert remote_executor(setting, variables) == remote


def test_local_drivers_are_refused_where_tasks_run_elsewhere_and_pods_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    with small_project(tmp_path / "project") as project:
        place = Place(str(project.folder), "local")
        with pytest.raises(UsageError) as caught:
            place.open()
        assert (caught.value.error_id, caught.value.facts["executor"]) == ("TIDE-CTRL-062", "CeleryExecutor")
        assert not (project.folder / ".data").exists()
        kubernetes = "runtime: kubernetes\nkubernetes: {namespace: plant, image: a:1}\nroot: s3://lake\n"
        project.environ(kubernetes)
        refuse_remote_workers(project.environment)
        project.environ(ENVIRONMENT)
        monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
        assert place.open().environment.spec.runtime == "local"
