"""Tests of retries and task timeouts in Airflow's own code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from tidemill import errors

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AIRFLOW_HOME, because Airflow creates this folder at its import."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


def final(error: BaseException) -> bool:
    from airflow.sdk import RetryAction

    from tidemill_airflow.retries import REFUSALS_ARE_FINAL

    return REFUSALS_ARE_FINAL.evaluate(error, try_number=1, max_tries=3).action == RetryAction.FAIL


@pytest.mark.parametrize("kind", errors.TidemillError.__subclasses__())
def test_an_error_is_final_where_its_exit_code_says_that_somebody_must_act(
    kind: type[errors.TidemillError],
) -> None:
    assert final(kind("TIDE-TEST-001", "A test.")) == (kind.exit_code in (64, 65, 66))


@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError("slow"), ValueError("?"), SystemExit(1)])
def test_what_is_not_known_to_be_final_is_retried(error: BaseException) -> None:
    assert not final(error)


def test_the_timeout_of_a_task_does_not_count_what_it_waits_for_its_driver() -> None:
    """Without this, a bounded run would be given up after `WORK_TIMEOUT` although it makes progress."""
    from airflow.sdk import BaseOperator
    from airflow.sdk.exceptions import TaskDeferred
    from airflow.sdk.execution_time.task_runner import _defer_task

    from tidemill_airflow.retries import REPEATED
    from tidemill_airflow.triggers import GoalTrigger

    task = BaseOperator(task_id="run", **REPEATED)
    instance: Any = SimpleNamespace(task=task, dag_id="incremental__orders", task_id="run", run_id="manual-1")
    trigger = GoalTrigger({"project": "/", "environment": "local"}, {"kind": "finished"}, None)
    deferred = TaskDeferred(trigger=trigger, method_name="finish")
    message, _ = _defer_task(deferred, instance, structlog.get_logger("task"))
    assert message.model_dump()["trigger_timeout"] is None
