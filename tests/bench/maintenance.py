"""Prints how a commit's time grows over 10,000 small commits with maintenance in between, and without.

Each commit is one of the arrow writer: a data file of one row, a look at the log, and the commit. Maintenance
runs after every 1,000 of them, as it would for a stream with a trigger of a few seconds. Limit: the median of
the last 500 is at most 1.2 times that of the first 500 after 500 to warm up.

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
LOOKED_AT = 500
LIMIT = 1.2


def commit_times(table: SmallFiles, commits: int, every: int | None) -> list[float]:
    """Seconds of each commit."""
    times = []
    for number in range(1, commits + 1):
        begun = time.perf_counter()
        table.write(1)
        times.append(time.perf_counter() - begun)
        if every is not None and number % every == 0:
            begun = time.perf_counter()
            report = table.maintain()
            took = time.perf_counter() - begun
            print(f"  after {number}: maintained in {took:.1f} s; {report.done[0]}", flush=True)
    return times


def growth(times: list[float]) -> tuple[float, float]:
    """Median of a commit at the start and at the end, in milliseconds."""
    start, end = times[LOOKED_AT : 2 * LOOKED_AT], times[-LOOKED_AT:]
    return statistics.median(start) * 1000, statistics.median(end) * 1000


def main() -> int:
    """Run both; 1 if the limit is not held."""
    with tempfile.TemporaryDirectory() as folder:
        table = SmallFiles(Path(folder))
        start, end = growth(commit_times(table, COMMITS, EVERY))
        rows, files = len(table.ids()), len(table.delta.file_uris())
    print(f"with maintenance: {start:.1f} ms at the start, {end:.1f} ms at the end, {end / start:.2f} times")
    print(f"  {rows} rows in {files} files")
    with tempfile.TemporaryDirectory() as folder:
        before, after = growth(commit_times(SmallFiles(Path(folder)), COMMITS, None))
    print(f"without: {before:.1f} ms at the start, {after:.1f} ms at the end, {after / before:.2f} times")
    if rows != COMMITS or end > LIMIT * start:
        print(f"over the limit of {LIMIT} times, or rows are missing")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
