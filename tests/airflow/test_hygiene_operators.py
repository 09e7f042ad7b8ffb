"""The tasks of `checkpoint_hygiene` on real state: a task is red for its pipeline, the report for all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clinic import Clinic
from tests.support.conf_project import ConfProject
from tidemill.control.plane import open_control_plane


class Run:
    """One run of the DAG, task by task; keeps what they return."""

    def __init__(self, clinic: Clinic) -> None:
        self.told: list[Any] = []
        self.place: Any = SimpleNamespace(open=lambda: open_control_plane(clinic.project.load(), {}))

    def context(self, kept: list[Any]) -> Any:
        ti = SimpleNamespace(
            xcom_push=lambda key, value: kept.append(value), xcom_pull=lambda task_ids: self.told
        )
        return {"ti": ti, "dag_run": SimpleNamespace(run_id="scheduled-1")}

    def look_after(self, pipeline: str) -> None:
        from tidemill_airflow.hygiene_operators import LookAfterCheckpoint

        task = LookAfterCheckpoint(task_id="look_after", place=self.place, pipeline=pipeline)
        self.told.append(task.execute(self.context(self.told)))

    def report(self, *pipelines: str) -> dict[str, Any]:
        from tidemill_airflow.hygiene_operators import HygieneReport

        task = HygieneReport(task_id="report", place=self.place, pipelines=pipelines)
        return task.execute(self.context([]))


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    clinic = Clinic(ConfProject(tmp_path / "project"))
    clinic.healthy()
    clinic.healthy("returns")
    return clinic


def test_a_damaged_checkpoint_turns_its_own_task_red_and_the_report(clinic: Clinic) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    run = Run(clinic)
    layout = clinic.project.load().layout
    (Path(layout.checkpoint("orders", "g0001")) / "offsets" / "2").write_text("v1")
    with pytest.raises(Exception, match="TIDE-CKPT-050 orders"):
        run.look_after("orders")
    run.look_after("returns")
    assert [care["pipeline"] for care in run.told] == ["orders", "returns"]
    assert run.told[1]["errors"] == run.told[1]["failed"] == []
    with pytest.raises(AirflowFailException, match="TIDE-CKPT-050 orders"):
        run.report("orders", "returns")


def test_healthy_checkpoints_are_green_with_what_was_done(clinic: Clinic) -> None:
    run = Run(clinic)
    for name in ("orders", "returns"):
        run.look_after(name)
    summary = run.report("orders", "returns")
    assert (summary["pipelines"], summary["folders"]) == (2, 2)
    assert [line.partition(", batch 2")[1] != "" for line in summary["done"]] == [True, False, True, False]


def test_a_task_that_died_is_named_by_the_report(clinic: Clinic) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    run = Run(clinic)
    run.look_after("orders")
    with pytest.raises(AirflowFailException, match="returns: its task has told nothing"):
        run.report("orders", "returns")
