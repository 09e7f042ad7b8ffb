"""Exit codes, errors and what gets imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tidemill import __version__
from tidemill.cli import graph
from tidemill.cli.app import main

VERBS = [
    ["init"],
    ["validate"],
    ["plan"],
    ["run"],
    ["status"],
    ["start"],
    ["stop"],
    ["restart"],
    ["suspend"],
    ["resume"],
    ["ledger"],
    ["graph"],
    ["checkpoint", "inspect"],
    ["checkpoint", "gate"],
    ["checkpoint", "doctor"],
    ["checkpoint", "backup"],
    ["checkpoint", "restore"],
    ["checkpoint", "rewind"],
    ["checkpoint", "reset"],
    ["checkpoint", "repair"],
    ["checkpoint", "repartition"],
    ["checkpoint", "fork"],
    ["checkpoint", "prune"],
    ["checkpoint", "hold"],
    ["checkpoint", "release"],
    ["backfill", "plan"],
    ["backfill", "apply"],
    ["backfill", "verify"],
    ["quarantine", "list"],
    ["quarantine", "show"],
    ["queries"],
    ["queries", "show"],
    ["queries", "wait"],
    ["watch"],
    ["control", "show"],
    ["control", "takeover"],
    ["dev", "broker"],
    ["dev", "produce"],
    ["dev", "generate"],
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_explains_itself(tidemill: CommandLine, verb: list[str]) -> None:
    assert tidemill(*verb, "--help") == 0
    assert "Usage: tidemill" in tidemill.out
    assert tidemill.err == ""


def test_the_version_is_printed(tidemill: CommandLine) -> None:
    assert tidemill("--version") == 0
    assert tidemill.out == f"tidemill {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["fly"], ["plan"], ["plan", "a", "b"], ["ledger", "orders", "--limit", "0"]]
)
def test_wrong_usage_ends_with_2_and_the_usage(tidemill: CommandLine, arguments: list[str]) -> None:
    assert tidemill(*arguments) == 2
    assert "Usage: tidemill" in tidemill.err
    assert tidemill.out == ""


@pytest.mark.parametrize(
    ("arguments", "error_id"),
    [
        (["plan", "missing"], "TIDE-SPEC-011"),
        (["plan", "../x"], "TIDE-SPEC-010"),
        (["--env", "missing", "plan", "orders"], "TIDE-SPEC-012"),
        (["--project", "/proc", "graph"], "TIDE-USE-001"),
    ],
)
def test_a_wrong_name_or_file_ends_with_2_and_the_error_on_stderr(
    tidemill: CommandLine, arguments: list[str], error_id: str
) -> None:
    assert tidemill(*arguments) == 2
    assert tidemill.err.startswith(error_id)
    assert "To fix:" in tidemill.err
    assert "Traceback" not in tidemill.err
    assert tidemill.out == ""


def test_a_refusal_ends_with_1(tidemill: CommandLine, project: ConfProject) -> None:
    project.write(".data/state/orders/current/00000001.json", "damaged")
    assert tidemill("plan", "orders") == 1
    assert tidemill.err.startswith("TIDE-STOR-001")


def test_an_unforeseen_error_ends_with_1_and_a_hint(
    tidemill: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("of\nall " + "things " * 1000)

    monkeypatch.setattr(graph, "console", fail)
    assert tidemill("graph") == 1
    assert tidemill.err.startswith("TIDE-CLI-001")
    assert "ZeroDivisionError: of all things" in tidemill.err
    assert "--debug" in tidemill.err
    assert "Traceback" not in tidemill.err
    assert len(tidemill.err) < 1_500


def test_debug_shows_the_trace(tidemill: CommandLine) -> None:
    assert tidemill("--debug", "plan", "missing") == 2
    assert "Traceback" in tidemill.err
    assert "TIDE-SPEC-011" in tidemill.err


def test_debug_does_not_show_a_value_that_was_refused(tidemill: CommandLine, project: ConfProject) -> None:
    project.replace("10 minutes", "hunter2-hunter2")
    assert tidemill("--debug", "plan", "orders") == 2
    assert "Traceback" in tidemill.err
    assert "hunter2" not in tidemill.err


def imported_by(*arguments: str, cwd: Path) -> set[str]:
    """Return the top-level packages that one command line imports, in a separate process."""
    script = (
        "import sys; from tidemill.cli.app import main; code = main(sys.argv[1:]); "
        "sys.stderr.write('\\n'.join({name.partition('.')[0] for name in sys.modules})); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=cwd, capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines())


def test_help_imports_nothing_heavy(project: ConfProject) -> None:
    heavy = {
        "pyspark",
        "airflow",
        "pyarrow",
        "deltalake",
        "obstore",
        "pydantic",
        "yaml",
        "rich",
        "confluent_kafka",
    }
    assert imported_by("--help", cwd=project.folder) & heavy == set()


def test_validate_imports_neither_spark_nor_airflow_nor_a_client(project: ConfProject) -> None:
    heavy = {"pyspark", "airflow", "deltalake", "obstore", "confluent_kafka", "rich"}
    assert imported_by("validate", cwd=project.folder) & heavy == set()


@pytest.mark.parametrize("arguments", [["plan", "orders"], ["graph"], ["status"], ["ledger", "orders"]])
def test_reading_verbs_import_neither_spark_nor_airflow(project: ConfProject, arguments: list[str]) -> None:
    assert imported_by(*arguments, cwd=project.folder) & {"pyspark", "airflow"} == set()


def test_without_a_verb_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert "Commands:" in printed.out + printed.err
