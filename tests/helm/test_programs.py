"""The two small programs that the chart brings; the e2e tier runs them against a database and a cluster."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import psycopg2
import pytest

from tests.support.chart import CHART, of_kind, render

PROGRAMS = sorted((CHART / "files").glob("*.py"))
# Nobody listens at this port: it is reserved for TCP's own multiplexer.
NO_DATABASE = "postgresql+psycopg2://airflow:secret-word@127.0.0.1:1/airflow"


def variables(connection: str) -> dict[str, str]:
    return {**os.environ, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": connection}


def run(program: str, *arguments: str, connection: str = NO_DATABASE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHART / "files" / program), *arguments],
        env=variables(connection),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_database_that_is_away_is_no_reason_to_restart_a_part() -> None:
    assert run("airflow_database.py", "beating", "TriggererJob").returncode == 0


def test_why_a_database_does_not_answer_is_told_at_once() -> None:
    command = [sys.executable, str(CHART / "files" / "airflow_database.py"), "reachable"]
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
    done = run("airflow_database.py", "reachable", connection=wrong)
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
def test_a_connection_that_a_client_reads_well_is_taken(url: str, marks: tuple[Any, set[str]]) -> None:
    program, _ = marks
    assert program.URL.fullmatch(url)


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, set[str]]:
    """The database's program with marks in memory, and those marks."""
    spec = importlib.util.spec_from_file_location("airflow_database", CHART / "files" / "airflow_database.py")
    assert spec is not None
    assert spec.loader is not None
    program: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    written: set[str] = set()
    connection = create_autospec(psycopg2.extensions.connection, spec_set=True)
    monkeypatch.setattr(program, "connect", lambda: connection)
    monkeypatch.setattr(program, "is_marked", lambda _, key: key in written)
    monkeypatch.setattr(program, "mark", lambda _, key: written.add(key))
    return program, written


def test_what_is_to_be_done_once_is_done_once(marks: tuple[Any, set[str]], tmp_path: Path) -> None:
    program, written = marks
    assert program.main("once", "first-user", "mkdir", str(tmp_path / "user"))
    (tmp_path / "user").rmdir()
    assert program.main("once", "first-user", "mkdir", str(tmp_path / "user"))
    assert (written, (tmp_path / "user").exists()) == ({"first-user"}, False)


def test_what_failed_is_done_again(marks: tuple[Any, set[str]]) -> None:
    program, written = marks
    with pytest.raises(subprocess.CalledProcessError):
        program.main("once", "first-user", "false")
    assert written == set()


def test_a_database_that_does_not_answer_makes_no_user(tmp_path: Path) -> None:
    done = run("airflow_database.py", "once", "first-user", "mkdir", str(tmp_path / "user"))
    assert (done.returncode, (tmp_path / "user").exists()) == (1, False)


def test_a_verb_that_nobody_knows_is_refused() -> None:
    done = run("airflow_database.py", "migrate")
    assert (done.returncode, "unknown verb migrate" in done.stderr) == (1, True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda file: file.stem)
def test_a_program_needs_no_more_than_its_image_has(program: Path) -> None:
    tree = ast.parse(program.read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    allowed = {"psycopg2"} if program.stem == "airflow_database" else set()
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names | allowed


def test_the_programs_reach_their_pods_as_they_are() -> None:
    maps = of_kind(render("evaluation"), "ConfigMap")
    shipped = {**maps["tidemill-drain"]["data"], **maps["tidemill-airflow-files"]["data"]}
    assert {name: text.strip() for name, text in shipped.items()} == {
        program.name: program.read_text().strip() for program in PROGRAMS
    }
