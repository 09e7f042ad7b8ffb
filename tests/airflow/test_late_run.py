"""A deadline of a pipeline as Airflow keeps it, and its callback as Airflow's triggerer runs it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.small_project import ENVIRONMENT, SmallProject, small_project
from tests.support.webhook import webhook

RUN = {"dag_id": "incremental__daily", "dag_run_id": "manual__1", "state": "running"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AIRFLOW_HOME, because Airflow creates this folder at its import."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


def late(project: SmallProject) -> list[dict[str, Any]]:
    """Return the events of a late run's deadline callback, which is decoded as Airflow stores it."""
    from airflow.serialization.decoders import decode_deadline_alert
    from airflow.serialization.encoders import encode_deadline_alert
    from airflow.triggers.callback import CallbackTrigger

    from tidemill_airflow.late_run import deadline_of
    from tidemill_airflow.place import Place

    alert = deadline_of(Place(str(project.folder), "local"), "daily", timedelta(minutes=30))
    assert alert is not None
    kept = json.loads(json.dumps(encode_deadline_alert(alert)))
    callback = decode_deadline_alert({"__type": "deadline_alert", "__var": kept}).callback
    kwargs = {**callback.kwargs, "context": {"dag_run": RUN, "deadline": {"id": "1"}}}

    async def run() -> list[dict[str, Any]]:
        return [event.payload async for event in CallbackTrigger(callback.path, kwargs).run()]

    return asyncio.run(run())


def test_a_late_run_is_told_to_each_channel_and_one_that_fails_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook() as chat, webhook() as pager, small_project(tmp_path / "project") as project:
        pager.answer = 503
        monkeypatch.setenv("AIRFLOW_CONN_CHAT", chat.url)
        monkeypatch.setenv("AIRFLOW_CONN_PAGER", pager.url)
        declared = "notify: [{webhook: {connection: pager}}, {webhook: {connection: chat}}]\n"
        project.environ(ENVIRONMENT + declared)
        events = late(project)
    assert [event["state"] for event in events] == ["running", "success"]
    (notice,) = chat.notices
    assert notice["subject"] == "Tidemill local: daily is late"
    assert "manual__1 (DAG incremental__daily) has not ended within 30 minutes" in notice["text"]
    assert notice["changes"] == [{"pipeline": "daily", "late": {"within": "30 minutes", **RUN}}]


def test_a_channel_that_cannot_be_opened_fails_the_callback(tmp_path: Path) -> None:
    with small_project(tmp_path / "project") as project:
        project.environ(ENVIRONMENT + "notify: [{slack: {}}]\n")
        events = late(project)
    assert events[-1]["state"] == "failed"
    assert "TIDE-CTRL-070" in events[-1]["body"]
