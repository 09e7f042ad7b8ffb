"""Variables of a standalone Airflow: retries of its tasks, and the place of its database."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tidemill.dev.airflow_standalone import START_TIMEOUT_SECONDS
from tidemill.dev.airflow_variables import AirflowConfig, airflow_variables


def test_a_task_that_begins_while_the_api_server_is_away_outlasts_its_start(tmp_path: Path) -> None:
    config = AirflowConfig(home=tmp_path, dags=tmp_path, project=tmp_path)
    variables = airflow_variables(config, tmp_path / "airflow", (1, 2, 3), {})
    attempts = int(variables["AIRFLOW__WORKERS__EXECUTION_API_RETRIES"])
    longest_wait = float(variables["AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX"])
    assert attempts * longest_wait / 2 > START_TIMEOUT_SECONDS


@pytest.mark.parametrize("name", ["plain", "a#b", "a?b", "a%20b", " [x]{y}:;&+ü'\""])
def test_airflows_own_database_is_in_its_home(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    config = AirflowConfig(home, tmp_path / "dags", tmp_path)
    variables = airflow_variables(config, tmp_path / "airflow", (1, 2, 3), {})
    url = make_url(variables["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    assert (url.drivername, url.database, dict(url.query)) == ("sqlite", str(home / "airflow.db"), {})
