"""The reconciliation task fails with all reasons, and sends each notification once through the notifier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.news import NEWS_VARIABLE
from tests.support.small_project import ENVIRONMENT, SmallProject, small_project
from tests.support.webhook import webhook
from tidemill.checkpoint.root_owner import RootOwner, write_owner

CHANNELS = (
    ENVIRONMENT
    + """
notify:
  - webhook: {connection: chat}
  - webhook: {connection: pager}
"""
)


class Task:
    """The task of one project, run again and again as by its schedule.

    Args:
        project: The project.
    """

    def __init__(self, project: SmallProject) -> None:
        self.project = project
        self.kept: dict[str, Any] = {}
        self.results: list[dict[str, str]] = []

    def run(self) -> str:
        """Run the task and return its error; empty if it succeeds."""
        from airflow.sdk.exceptions import AirflowFailException

        from tidemill_airflow.reconcile_operator import ReconcileStreams, streams_asset

        place: Any = SimpleNamespace(
            open=self.project.plane,
            environment_name="local",
            beside="",
            declared=lambda: self.project.environment.spec,
        )
        store = SimpleNamespace(get=self.kept.get, set=self.kept.__setitem__)
        ti = SimpleNamespace(xcom_push=lambda key, value: self.results.append(value))
        run = SimpleNamespace(dag_id="tidemill_streams", run_id=f"manual-{len(self.results)}")
        context: Any = {"ti": ti, "dag_run": run, "asset_state_store": {streams_asset(): store}}
        try:
            self.results.append(ReconcileStreams(task_id="reconcile", place=place).execute(context))
        except AirflowFailException as failed:
            return str(failed)
        return ""


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("TIDEMILL_NOTIFIER", "tests.support.news:notifier")
    monkeypatch.setenv(NEWS_VARIABLE, str(tmp_path / "news"))
    with small_project(tmp_path / "project") as project:
        project.declare("orders")
        yield Task(project)


def news(tmp_path: Path) -> list[str]:
    file = tmp_path / "news"
    return file.read_text().split("\n--\n")[:-1] if file.exists() else []


def test_the_log_of_a_stream_says_which_dag_run_has_started_it(task: Task) -> None:
    assert task.run() == ""
    plane = task.project.plane()
    process = eventually(
        lambda: (found := plane.running("orders")) and found.process.startswith("pid ") and found.process,
        "the driver runs",
    )
    environ = Path(f"/proc/{str(process).removeprefix('pid ')}/environ")
    variable = b"TIDEMILL_DAG_RUN=tidemill_streams manual-0"
    # Empty until the process has become the driver's.
    eventually(lambda: variable in environ.read_bytes().split(b"\0"), "the driver has the variable")


def test_what_is_wrong_makes_every_run_red_and_is_told_once(task: Task, tmp_path: Path) -> None:
    assert task.run() == ""
    assert news(tmp_path) == []
    task.project.declare("broken", "descripton: a typo")
    failures = [task.run() for _ in range(3)]
    assert all(
        failure.startswith("These streams need a human.\nbroken: refused since ") for failure in failures
    )
    assert task.results[-1] == {"broken": "refused", "orders": "leave"}
    (told,) = news(tmp_path)
    assert told.startswith("broken: refused since ")
    task.project.declare("broken")
    assert task.run() == ""
    assert news(tmp_path)[1:] == ["broken: well again"]


def test_a_root_that_was_taken_over_is_told_and_red(task: Task, tmp_path: Path) -> None:
    task.run()
    plane = task.project.plane()
    write_owner(plane.store, plane.layout, RootOwner(id="x", runtime="local", place="/other", host="laptop"))
    assert "all streams: failed since " in task.run()
    assert "TIDE-CTRL-010" in news(tmp_path)[0]


def test_people_are_told_before_runs_that_nobody_waits_for_are_looked_for(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowTaskTimeout

    def takes_for_ever(_: object) -> list[str]:
        raise AirflowTaskTimeout

    monkeypatch.setattr("tidemill_airflow.reconcile_operator.stop_abandoned", takes_for_ever)
    task.project.declare("broken", "descripton: a typo")
    with pytest.raises(AirflowTaskTimeout):
        task.run()
    assert news(tmp_path)[0].startswith("broken: refused since ")


def test_a_notifier_that_fails_is_asked_again_and_stops_nothing(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task.project.declare("broken", "descripton: a typo")
    with monkeypatch.context() as patch:
        patch.setenv("TIDEMILL_NOTIFIER", "tests.support.news:fails")
        assert "broken: refused" in task.run()
        assert task.results[-1]["orders"] == "start"
    assert "broken: refused" in task.run()
    assert len(news(tmp_path)) == 1


def test_a_notifier_that_is_not_there_is_no_silence(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_NOTIFIER", "tests.support.news:nobody")
    failure = task.run()
    assert failure.startswith("TIDE-CTRL-015")
    assert task.project.plane().running("orders") is not None


def test_a_channel_that_fails_is_told_later_and_the_others_once(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEMILL_NOTIFIER")
    with webhook() as chat, webhook() as pager:
        for name, hook in (("chat", chat), ("pager", pager)):
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", hook.url)
        task.project.environ(CHANNELS)
        task.project.declare("broken", "descripton: a typo")
        pager.answer = 503
        for _ in range(2):
            assert task.run().startswith("These streams need a human.")
        pager.answer = 204
        task.run()
        task.run()
        assert len(chat.texts) == 1
        # Twice in vain.
        assert len(pager.texts) == 3
        assert set(chat.texts) == set(pager.texts)
        assert chat.notices[0]["subject"] == "Tidemill local: broken needs a person"
        # An error that appeared and was fixed between two notifications is not reported.
        pager.answer = 503
        task.project.declare("broken")
        task.run()
        task.project.declare("broken", "descripton: a typo")
        task.run()
        pager.answer = 204
        task.run()
        assert [text.partition(" since")[0] for text in chat.texts] == [
            *("broken: refused", "broken: well again", "broken: refused"),
        ]
        assert len(pager.texts) == 4


def test_a_channel_that_cannot_be_opened_is_red_and_the_others_are_told(
    task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task.project.environ(ENVIRONMENT + "notify: [{slack: {}}]\n")
    assert task.run().startswith("TIDE-CTRL-070")
    task.project.declare("broken", "descripton: a typo")
    failure = task.run()
    assert "apache-airflow-providers-slack" in failure
    assert "broken: refused" in failure
    assert len(news(tmp_path)) == 1


def test_a_channel_without_its_connection_or_a_silent_one_stops_nothing(
    task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tidemill_airflow.notify.PATIENCE_SECONDS", 1)
    with webhook() as chat:
        chat.open.clear()
        monkeypatch.setenv("AIRFLOW_CONN_CHAT", chat.url)
        task.project.environ(CHANNELS)
        task.project.declare("broken", "descripton: a typo")
        assert task.run().startswith("These streams need a human.")
        assert set(task.kept["report"]["behind"]) == {"webhook chat", "webhook pager"}
        assert len(news(tmp_path)) == 1


def test_without_a_notifier_the_task_alone_tells(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEMILL_NOTIFIER")
    task.project.declare("broken", "descripton: a typo")
    assert "broken: refused" in task.run()
    assert task.kept["report"]["troubles"]["broken"]["red"] is True


def test_what_was_found_before_may_be_lost(task: Task, tmp_path: Path) -> None:
    task.project.declare("broken", "descripton: a typo")
    task.run()
    task.kept["report"] = {"troubles": "damaged"}
    task.run()
    assert len(news(tmp_path)) == 2
