"""Prints a commit's time after 10,000 small commits, with maintenance in between and without.

Each commit is one of the arrow writer: a data file of one row, a look at the log, and the commit. Maintenance
runs after every 1,000 of them, as it would for a stream with a trigger of a few seconds. In the end both
tables and a new one are written in turn, so that they meet the same machine. Limit: the median of the
maintained table is at most 1.2 times that of one with 500 commits.

Run: make bench-maintenance
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.support.small_files import SmallFiles

COMMITS = 10_000
EVERY = 1_000
ROUNDS = 500
LIMIT = 1.2


def grown(folder: Path, commits: int, every: int | None = None) -> SmallFiles:
    """Return a table with this number of commits."""
    folder.mkdir()
    table = SmallFiles(folder)
    for number in range(1, commits + 1):
        table.write(1)
        if every is not None and number % every == 0:
            begun = time.perf_counter()
            report = table.maintain()
            took = time.perf_counter() - begun
            print(f"  after {number}: maintained in {took:.1f} s; {report.done[0]}", flush=True)
    return table


def median_times(tables: dict[str, SmallFiles]) -> dict[str, float]:
    """Return the median of a commit to each table, in milliseconds. The tables are written in turn."""
    times: dict[str, list[float]] = {name: [] for name in tables}
    for _ in range(ROUNDS):
        for name, table in tables.items():
            begun = time.perf_counter()
            table.write(1)
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(measured) * 1000 for name, measured in times.items()}


def main() -> int:
    """Grow the tables and compare; 1 if the limit is not held."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        tables = {
            "new": grown(folder / "new", ROUNDS),
            "maintained": grown(folder / "maintained", COMMITS, EVERY),
            "never maintained": grown(folder / "left", COMMITS),
        }
        medians = median_times(tables)
        rows = len(tables["maintained"].ids())
    for name, median in medians.items():
        print(f"{name}: {median:.1f} ms a commit, {median / medians['new']:.2f} times")
    if rows != COMMITS + ROUNDS or medians["maintained"] > LIMIT * medians["new"]:
        print(f"over the limit of {LIMIT} times, or rows are missing")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
