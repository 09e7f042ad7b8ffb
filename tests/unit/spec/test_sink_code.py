"""A sink's function or class is found in its file before anything runs."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tidemill.ledger.code import code_of

CODE = """
class Lines:
    def process(self, row): ...

def write(rows, token): ...
"""


def with_code(project: ConfProject, sink: str, code: str = CODE) -> ConfProject:
    project.write("spark_apps/transforms/own.py", code)
    project.replace("sinks:", f"sinks:\n  - {sink}")
    return project


@pytest.mark.parametrize("sink", ['foreach: {writer: "own:Lines"}', 'foreach_batch: {function: "own:write"}'])
def test_its_file_is_part_of_the_code(project: ConfProject, sink: str) -> None:
    before = with_code(project, sink).resolve()
    code = code_of(before)
    project.write("spark_apps/transforms/own.py", CODE + "# changed\n")
    assert code_of(project.resolve()).rules != code.rules


@pytest.mark.parametrize(
    ("sink", "code", "says"),
    [
        ('foreach: {writer: "own:Line"}', CODE, "does not define"),
        ('foreach: {writer: "own:write"}', CODE, "no class"),
        ('foreach: {writer: "own:Lines"}', "class Lines: ...", "no method `process`"),
        (
            'foreach: {writer: "own:Lines"}',
            "class Lines:\n def open(self): ...\n def process(self, row): ...",
            "`open` takes",
        ),
        ('foreach_batch: {function: "own:Lines"}', CODE, "no function"),
        ('foreach_batch: {function: "own:write"}', "def write(rows): ...", "rows and the token"),
        (
            'foreach_batch: {function: "own:write"}',
            "def write(rows, token, *, url): ...",
            "rows and the token",
        ),
    ],
)
def test_what_cannot_take_rows_is_refused(project: ConfProject, sink: str, code: str, says: str) -> None:
    error = with_code(project, sink, code).refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-049", f"sinks[0].{sink.partition(':')[0]}")
    assert says in error.problem
    assert error.fix


def test_a_near_name_is_proposed_and_a_file_that_is_missing_named(project: ConfProject) -> None:
    assert with_code(project, 'foreach: {writer: "own:Line"}').refusal().fix == "did you mean Lines?"
    assert with_code(project, 'foreach_batch: {function: "owm:write"}').refusal().error_id == "TIDE-SPEC-015"


@pytest.mark.parametrize(
    "code",
    ["def write(rows, token, retries=3): ...", "def write(*args): ...", "def write(rows, /, token): ..."],
)
def test_what_can_be_called_with_rows_and_token_is_taken(project: ConfProject, code: str) -> None:
    with_code(project, 'foreach_batch: {function: "own:write"}', code).resolve()
