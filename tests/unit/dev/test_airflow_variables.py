"""How patient the tasks of a standalone Airflow are."""

from __future__ import annotations

from pathlib import Path

from tidemill.dev.airflow_standalone import START_TIMEOUT_SECONDS
from tidemill.dev.airflow_variables import AirflowConfig, airflow_variables


def test_a_task_that_begins_while_the_api_server_is_away_outlasts_its_start(tmp_path: Path) -> None:
    config = AirflowConfig(home=tmp_path, dags=tmp_path, project=tmp_path)
    variables = airflow_variables(config, tmp_path / "airflow", (1, 2, 3), {})
    attempts = int(variables["AIRFLOW__WORKERS__EXECUTION_API_RETRIES"])
    longest_wait = float(variables["AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX"])
    assert attempts * longest_wait / 2 > START_TIMEOUT_SECONDS
