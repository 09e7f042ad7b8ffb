"""`make coverage-table`: what Tidemill must be able to do, the tests that prove it, and their results.

A row is complete if no clause of it is missing and all its tests passed in their newest run. `RUN=1` runs its
tests first, but for those that need a cluster, helm or hours; `ROWS="S15 S19"` takes some rows only.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.coverage.results import RESULTS, Result, read_results
from tests.coverage.rows import REPOSITORY, Row, load_rows

# Tiers that `make test` runs; the others have separate targets.
TIERS = ("tests/unit/", "tests/spark/", "tests/kafka/", "tests/airflow/")


@dataclass(frozen=True)
class Verdict:
    """One row with its results.

    Args:
        row: The row.
        failed: Tests of the row with a case that did not pass.
        not_run: Tests of the row without a result.
    """

    row: Row
    failed: Sequence[str]
    not_run: Sequence[str]

    @property
    def word(self) -> str:
        """Return the row's state for the table."""
        if self.failed:
            return "FAILED"
        if self.row.missing:
            return "partly" if self.row.proven else "missing"
        return "not run" if self.not_run else "complete"


def judge(row: Row, results: Mapping[str, Result]) -> Verdict:
    """Return the verdict on a row by the results of its tests."""
    failed = [test for test in row.tests if test in results and results[test].failed]
    return Verdict(row, failed, [test for test in row.tests if test not in results])


def lines_of(verdict: Verdict) -> list[str]:
    """Return the row as the table shows it, and below it all that keeps it from being complete."""
    row = verdict.row
    clauses = f"{len(row.proven)}/{len(row.proven) + len(row.missing)}"
    tests = len(row.tests)
    passed = tests - len(verdict.failed) - len(verdict.not_run)
    head = f"{row.row_id:4} {verdict.word:9} {clauses:>6} {f'{passed}/{tests}':>7}  {row.capability}"
    return [
        head,
        *(f"       missing: {clause}: {why}" for clause, why in row.missing.items()),
        *(f"       FAILED:  {test}" for test in verdict.failed),
        *(f"       not run: {test}" for test in verdict.not_run),
    ]


def tests_of(rows: Sequence[Row]) -> list[str]:
    """Return all tests of the rows, by file."""
    return sorted({test for row in rows for test in row.tests})


def run_tests(rows: Sequence[Row]) -> None:
    """Run the tests of some rows as `make test` does; what fails is in the table."""
    results = RESULTS / f"coverage-{'-'.join(row.row_id for row in rows)}.xml"
    options = ["-q", "--numprocesses", "3", "--dist", "loadfile", f"--junitxml={results}"]
    tests = [test for test in tests_of(rows) if test.startswith(TIERS)]
    subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=REPOSITORY, check=False)


def main() -> int:
    """Read the command line, perhaps run, print; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run", action="store_true", help="run the tests first")
    parser.add_argument("rows", nargs="*", help="ids of rows; all if not given")
    arguments = parser.parse_args()
    rows = [row for row in load_rows() if not arguments.rows or row.row_id in arguments.rows]
    if arguments.run:
        run_tests(rows)
    results = read_results()
    verdicts = [judge(row, results) for row in rows]
    print(f"{'row':4} {'':9} {'proven':>6} {'passed':>7}  capability")
    for verdict in verdicts:
        print(*lines_of(verdict), sep="\n")
    _print_sum(verdicts, [results[test].ran_at for test in tests_of(rows) if test in results])
    return int(any(verdict.failed for verdict in verdicts))


def _print_sum(verdicts: Sequence[Verdict], moments: Sequence[datetime]) -> None:
    words = [verdict.word for verdict in verdicts]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    proven = sum(len(verdict.row.proven) for verdict in verdicts)
    clauses = proven + sum(len(verdict.row.missing) for verdict in verdicts)
    print(f"\n{len(verdicts)} rows: {counts}. {proven} of {clauses} clauses have tests.")
    if moments:
        first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (min(moments), max(moments)))
        print(f"Results of runs that ended between {first} and {last} UTC.")


if __name__ == "__main__":
    sys.exit(main())
