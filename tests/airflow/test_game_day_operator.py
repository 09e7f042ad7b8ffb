"""A game day in a pod: it is played once per request."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.api_server import ApiServerInMemory
from tests.support.cluster_project import ClusterProject, make_owner
from tests.support.eventually import eventually
from tests.support.parts_as_pods import FILES_TO_TABLE, Parts
from tidemill.control.game_day.rule import DrillResult, GameDay
from tidemill.control.kubernetes.api import JOBS


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    project, api = ClusterProject(tmp_path / "project"), ApiServerInMemory()
    make_owner(api)
    found = Parts(project, api, monkeypatch)
    project.declare("orders", FILES_TO_TABLE)
    return found


def trying(parts: Parts, times_cleared: int) -> threading.Thread:
    """Return a try of the task of one DAG run, which was cleared so often."""
    from tidemill_airflow.game_day_operator import PlayGameDay

    place: Any = SimpleNamespace(open=lambda: parts.plane, environment="plant", beside="")
    run = SimpleNamespace(dag_id="game_day", run_id="weekly-1", clear_number=times_cleared)
    context: Any = {"dag_run": run, "params": {"pipeline": "orders"}}
    task = PlayGameDay(task_id="play", place=place)
    thread = threading.Thread(target=lambda: parts.came_to.append(task.execute(context)))
    thread.start()
    return thread


def played(at: datetime) -> dict[str, Any]:
    killed = DrillResult("kill", "recovered", 9.5, "batch 7")
    return GameDay("orders", "day", at, "ann", (killed,)).as_document()


def test_a_cleared_game_day_is_played_again_though_it_went_well(parts: Parts) -> None:
    days = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 8)]
    for times_cleared, at in enumerate(days):
        thread = trying(parts, times_cleared)
        parts.pod()
        parts.finish(played(at))
        thread.join()
        # Kubernetes removes it after a day and a half.
        parts.clock.pass_by(36 * 3600)
        (job,) = parts.api.list(JOBS, {})
        parts.api.delete(JOBS, job["metadata"]["name"], {})
        parts.api.settle()
    assert parts.came_to == [played(at) for at in days]


def test_a_retry_and_a_clear_find_the_pod_at_work(parts: Parts) -> None:
    asked: Counter[int | None] = Counter()
    parts.api.before = lambda _verb, _kind: asked.update([threading.current_thread().ident])
    first = trying(parts, 0)
    parts.pod()
    others = [trying(parts, times_cleared) for times_cleared in (0, 1)]
    # One that asks again and again waits for the pod's end.
    eventually(lambda: all(asked[thread.ident] > 100 for thread in others), "both wait")
    parts.finish(played(datetime(2026, 3, 1, tzinfo=UTC)))
    for thread in (first, *others):
        thread.join()
    assert parts.came_to == [played(datetime(2026, 3, 1, tzinfo=UTC))] * 3
    assert len(parts.api.list(JOBS, {})) == 1
