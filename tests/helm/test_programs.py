"""The two small programs that the chart brings; the e2e tier runs them against a database and a cluster."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.chart import CHART, of_kind, render

PROGRAMS = sorted((CHART / "files").glob("*.py"))
# Nobody listens at this port: it is reserved for TCP's own multiplexer.
NO_DATABASE = "postgresql+psycopg2://airflow:secret-word@127.0.0.1:1/airflow"


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHART / "files" / program), *arguments],
        env={**os.environ, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": NO_DATABASE},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_database_that_is_away_is_no_reason_to_restart_a_part() -> None:
    assert run("airflow_database.py", "beating", "TriggererJob").returncode == 0


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
