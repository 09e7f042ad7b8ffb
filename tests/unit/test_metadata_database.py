"""The cheap looks at Airflow's database; the e2e tier runs them against a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import create_autospec

import psycopg2
import pytest

from tidemill_airflow import metadata_database

PROGRAM = [sys.executable, "-m", "tidemill_airflow.metadata_database"]
# No process listens on this port, which is reserved for TCP's own multiplexer.
NO_DATABASE = "postgresql+psycopg2://airflow:secret-word@127.0.0.1:1/airflow"


def variables(connection: str) -> dict[str, str]:
    return {**os.environ, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": connection}


def run(*arguments: str, connection: str = NO_DATABASE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        env=variables(connection),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_database_that_is_unavailable_is_no_reason_to_restart_a_part() -> None:
    assert run("beating", "TriggererJob").returncode == 0


def test_why_a_database_does_not_answer_is_told_at_once() -> None:
    command = [*PROGRAM, "reachable"]
    with subprocess.Popen(command, env=variables(NO_DATABASE), stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        line = waiting.stderr.readline()
        waiting.kill()
    assert "Connection refused" in line
    assert "secret-word" not in line


@pytest.mark.parametrize(
    "wrong",
    [f"{NO_DATABASE}\n", *(NO_DATABASE.replace("secret", f"a{end}secret") for end in ("@", "/", "%zz"))],
    ids=["line end", "at", "slash", "percent"],
)
def test_a_connection_that_a_client_would_misread_is_refused_by_name_and_not_shown(wrong: str) -> None:
    done = run("reachable", connection=wrong)
    assert (done.returncode, "`connection`" in done.stderr) == (1, True)
    assert "secret-word" not in done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg2://airflow:p%40ss%2F1@host:5432/airflow?sslmode=require",
        "postgresql://a:b:c@host/airflow",
        "postgresql+psycopg2:///airflow?host=/run/postgresql",
    ],
)
def test_a_connection_that_a_client_reads_well_is_taken(url: str) -> None:
    assert metadata_database.URL.fullmatch(url)


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the marks, in memory instead of in a database."""
    written: set[str] = set()
    connection = create_autospec(psycopg2.extensions.connection, spec_set=True)
    monkeypatch.setattr(metadata_database, "connect", lambda: connection)
    monkeypatch.setattr(metadata_database, "is_marked", lambda _, key: key in written)
    monkeypatch.setattr(metadata_database, "mark", lambda _, key: written.add(key))
    return written


def test_what_is_to_be_done_once_is_done_once(marks: set[str], tmp_path: Path) -> None:
    folder = tmp_path / "user"
    assert metadata_database.main("once", "first-user", "mkdir", str(folder))
    folder.rmdir()
    assert metadata_database.main("once", "first-user", "mkdir", str(folder))
    assert (marks, folder.exists()) == ({"first-user"}, False)


def test_what_failed_is_done_again(marks: set[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        metadata_database.main("once", "first-user", "false")
    assert marks == set()


def test_a_database_that_does_not_answer_makes_no_user(tmp_path: Path) -> None:
    folder = tmp_path / "user"
    done = run("once", "first-user", "mkdir", str(folder))
    assert (done.returncode, folder.exists()) == (1, False)


def test_a_verb_that_nobody_knows_is_refused() -> None:
    done = run("migrate")
    assert (done.returncode, "unknown verb migrate" in done.stderr) == (1, True)


def test_a_look_loads_neither_airflow_nor_spark() -> None:
    seen = "import sys, tidemill_airflow.metadata_database; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True).stdout
    assert not {"airflow", "pyspark", "kubernetes", "pydantic"} & set(loaded.split())
