from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tidemill.cli.app import main
from tidemill.spec.reference import differing_files


def test_a_new_project_is_valid_and_its_next_steps_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "deep" / "mine"
    assert main(["init", str(folder)]) == 0
    out = capsys.readouterr().out
    assert f"cd {folder}" in out
    assert "tidemill run hello --mode incremental" in out
    assert main(["--project", str(folder), "--env", "local", "validate"]) == 0
    assert differing_files(folder) == []


def test_a_new_project_has_data_that_fits_its_pipeline(tmp_path: Path, tidemill: CommandLine) -> None:
    assert tidemill("init", str(tmp_path / "mine")) == 0
    tidemill.folder = tmp_path / "mine"
    plan = tidemill.json("plan", "hello")
    landing = tidemill.folder / ".data" / plan["source"]["path"]
    rows = [json.loads(line) for file in landing.iterdir() for line in file.read_text().splitlines()]
    assert rows
    assert {frozenset(row) for row in rows} == {frozenset(plan["decoded_columns"])}


def test_the_readme_s_commands_are_the_next_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "mine")]) == 0
    told = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  tidemill ")]
    readme = (tmp_path / "mine" / "README.md").read_text()
    assert [line.strip() for line in readme.splitlines() if line.startswith("    tidemill ")] == told
    assert len(told) == 3


def test_a_folder_that_holds_something_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("TIDE-DEV-020")
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("name", ["file/below", "a" * 5_000])
def test_a_folder_that_cannot_be_made_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["init", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.startswith("TIDE-DEV-020")
