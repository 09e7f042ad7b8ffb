"""The rows of `make coverage-table`: each has clauses, and each clause tests that exist, or a reason."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.coverage.results import Result, read_results
from tests.coverage.rows import REPOSITORY, Row, load_rows, names_of_tests
from tests.coverage.table import judge, lines_of

ROWS = load_rows()


def test_no_row_of_what_runs_is_left_out() -> None:
    assert [row.row_id for row in ROWS if row.row_id[0] == "S"] == [f"S{number}" for number in range(1, 41)]


def test_no_row_is_there_twice() -> None:
    assert len({row.row_id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.row_id)
def test_each_clause_of_a_row_has_tests_that_exist_or_a_reason(row: Row) -> None:
    assert row.proven or row.missing
    assert all(row.proven.values())
    assert all(row.missing.values())
    names = {
        file: names_of_tests(REPOSITORY / file) for file in {test.partition("::")[0] for test in row.tests}
    }
    unknown = [test for test in row.tests if test.partition("::")[2] not in names[test.partition("::")[0]]]
    assert unknown == []


RUN = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one[x]"/>
<testcase classname="tests.unit.test_a" name="test_one[y]">{y}</testcase>
<testcase classname="tests.unit.test_a" name="test_two"/>
</testsuite></testsuites>"""
ONE, TWO, THREE = (f"tests/unit/test_a.py::test_{name}" for name in ("one", "two", "three"))


def write_run(folder: Path, name: str, hour: int, y: str) -> None:
    file = folder / f"{name}.xml"
    file.write_text(RUN.format(y=y))
    ended = datetime(2026, 1, 1, hour, tzinfo=UTC).timestamp()
    os.utime(file, (ended, ended))


@pytest.mark.parametrize("y", ["<failure/>", "<error/>", "<skipped/>"])
def test_the_newest_result_of_a_test_counts_and_all_its_cases(tmp_path: Path, y: str) -> None:
    write_run(tmp_path, "b", 1, "")
    write_run(tmp_path, "a", 2, y)
    then = datetime(2026, 1, 1, 2, tzinfo=UTC)
    assert read_results(tmp_path) == {ONE: Result(2, 1, then), TWO: Result(1, 0, then)}
    write_run(tmp_path, "b", 3, "")
    assert read_results(tmp_path)[ONE].failed == 0


@pytest.mark.parametrize(
    ("proven", "missing", "failed", "word"),
    [
        ({"all": [ONE, TWO]}, {}, 0, "complete"),
        ({"all": [ONE, THREE]}, {}, 0, "not run"),
        ({"some": [ONE]}, {"more": "why"}, 0, "partly"),
        ({}, {"all": "why"}, 0, "missing"),
        ({"all": [ONE, THREE]}, {"more": "why"}, 1, "FAILED"),
    ],
)
def test_a_row_is_complete_only_if_nothing_is_missing_and_all_was_run_and_passed(
    proven: dict[str, list[str]], missing: dict[str, str], failed: int, word: str
) -> None:
    then = datetime(2026, 1, 1, tzinfo=UTC)
    results = {ONE: Result(2, failed, then), TWO: Result(1, 0, then)}
    verdict = judge(Row("S1", "Something", proven, missing), results)
    assert verdict.word == word
    shown = "\n".join(lines_of(verdict))
    assert all(f"{clause}: {why}" in shown for clause, why in missing.items())
    assert (f"not run: {THREE}" in shown) is (THREE in str(proven))
    assert (f"FAILED:  {ONE}" in shown) is bool(failed)
