"""Each file is read once, with any name and in any folder: by a stream, by a backfill, and archived."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.support.cleaning import clean
from tests.support.driver_process import START_TIMEOUT_SECONDS, drivers_of
from tests.support.lake import Lake, LakePipeline
from tidemill.spec.location import pattern_fault

# A name that is a Hadoop pattern, and a name that the pattern would match.
NAMES = [
    "star*",
    "star1",
    "br[1]",
    "br1",
    "b{1}",
    "b1",
    "q?",
    "q1",
    "back\\slash",
    "hash#1",
    "percent%20",
    "percent 20",
    "plus+",
    "2026-03-01T10:00:00",
    "a b",
    "ü",
    "line\nfeed",
    "quote'\"",
    "semi;&=,@$!~^|<>",
    "2026/03/01/x",
    "day=1/x",
    "day=1/star*",
    "plain/x[1]/y",
]


def ids_pipeline(lake: Lake, **files: Any) -> LakePipeline:
    declared = {"path": "landing/ids", "format": "csv", "schema": "id long", **files}
    return lake.pipeline(
        "ids",
        source={"files": {"max_files_per_batch": 4, **declared}},
        sinks=[{"delta": {"table": "bronze/ids", "mode": "append"}}],
        run={"mode": "incremental"},
    )


TRANSFORM = """
from pyspark.sql import functions as F


def transform(rows):
    hours = rows.groupBy(F.window("at", "1 hour"))
    ids = hours.agg(F.array_sort(F.collect_list("id")).alias("ids"))
    return ids.select(F.col("window.start").alias("window_start"), "ids")
"""


def windows_pipeline(lake: Lake, **files: Any) -> LakePipeline:
    """Rows of windows can be computed again by a backfill."""
    declared = {"path": "landing/ids", "format": "csv", "schema": "id long, at timestamp", **files}
    return lake.pipeline(
        "ids",
        source={"files": {"max_files_per_batch": 4, **declared}},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("ids", TRANSFORM),
        sinks=[{"delta": {"table": "bronze/ids", "mode": "append"}}],
        run={"mode": "incremental"},
    )


def land_hour(lake: Lake, names: list[str]) -> None:
    """Write rows of one hour, and a file that closes the hour."""
    for number, name in enumerate(names):
        lake.land(f"landing/ids/{name}.csv", f"{number},2026-03-01T12:00:00Z\n")
    lake.land("landing/ids/z/new/last.csv", "100,2026-03-02T12:00:00Z\n")


def windows(lake: Lake) -> list[list[int]]:
    return [row["ids"] for row in lake.rows("bronze/ids")]


def ids(lake: Lake) -> list[int]:
    return sorted(row["id"] for row in lake.rows("bronze/ids"))


def test_each_file_is_read_once_whatever_its_name(lake: Lake) -> None:
    land_hour(lake, NAMES)
    pipeline = windows_pipeline(lake)
    pipeline.run_incremental()
    assert windows(lake) == [list(range(len(NAMES)))]
    pipeline.run_incremental()
    pipeline.backfill("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")
    assert windows(lake) == [list(range(len(NAMES)))]


@pytest.mark.parametrize("after", ["archive", "delete"])
def test_files_of_any_name_are_archived_or_deleted(lake: Lake, after: str) -> None:
    land_hour(lake, NAMES)
    pipeline = windows_pipeline(lake, after=after, max_files_per_batch=1)
    pipeline.run_incremental()
    lake.land("landing/ids/newest.csv", "101,2026-03-02T12:00:00Z\n")
    pipeline.run_incremental()
    clean(pipeline.resolved)
    left = [path.name for path in (lake.root / "landing/ids").rglob("*.csv")]
    archived = list((lake.root / "archived").rglob("*.csv"))
    if after == "archive":
        assert len(archived) + len(left) == len(NAMES) + 2
        pipeline.backfill("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")
    assert "star*.csv" not in left
    assert "line\nfeed.csv" not in left
    assert len(left) <= 2
    assert windows(lake) == [list(range(len(NAMES)))]


def test_a_path_with_wildcards_reads_the_folders_that_it_names(lake: Lake) -> None:
    land_hour(lake, ["a/new/star*", "a/new/star1", "b/new/deep/x", "b/old/x", "new/x"])
    pipeline = windows_pipeline(lake, path="landing/ids/*/new", max_files_per_batch=1)
    pipeline.run_incremental()
    assert windows(lake) == [[0, 1, 2]]
    pipeline.backfill("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")
    assert windows(lake) == [[0, 1, 2]]


@settings(max_examples=300)
@example("[[]1]")
@example("{a,b")
@given(st.text(alphabet="ab1[]{}!^-,*?", min_size=1, max_size=8))
def test_a_pattern_is_refused_if_and_only_if_hadoop_cannot_read_it(spark: SparkSession, pattern: str) -> None:
    jvm: Any = spark._jvm
    refused = pytest.raises(Py4JJavaError, match="Illegal file pattern")
    with nullcontext() if pattern_fault(pattern) is None else refused:
        jvm.org.apache.hadoop.fs.GlobFilter(pattern)


def test_without_recursion_only_folders_of_columns_are_read(lake: Lake) -> None:
    for number, name in enumerate(["x", "day=1/x", "day=1/hour=2/x", "plain/x", "day=1/plain/x"]):
        lake.land(f"landing/ids/{name}.csv", f"{number}\n")
    pipeline = ids_pipeline(lake, recursive=False)
    pipeline.run_incremental()
    assert ids(lake) == [0, 1, 2]


def test_files_of_one_time_are_read_in_the_order_of_their_names(lake: Lake) -> None:
    names = ["9", "10", "b", "a", "A", "ü"]
    for number, name in enumerate(names):
        os.utime(lake.land(f"landing/ids/{name}.csv", f"{number}\n"), (1_700_000_000, 1_700_000_000))
    ids_pipeline(lake, max_files_per_batch=1).run_incremental()
    batches = {c.entry.batch_id: c for c in lake.ledger("bronze/ids") if c.entry is not None}
    versions = [batches[batch].version for batch in sorted(batches)]
    read = []
    for version in versions:
        rows = (
            lake.spark.read.format("delta")
            .option("versionAsOf", version)
            .load(str(lake.root / "tables/bronze/ids"))
        )
        (new,) = {row["id"] for row in rows.collect()} - set(read)
        read.append(new)
    assert [names[number] for number in read] == sorted(names)


def test_an_empty_folder_ends_an_incremental_run_at_once(lake: Lake) -> None:
    (lake.root / "landing/ids").mkdir(parents=True)
    reporter = ids_pipeline(lake).run_incremental()
    assert (reporter.status.batches, lake.ledger("bronze/ids")) == (0, [])


@pytest.fixture
def unreadable(lake: Lake) -> LakePipeline:
    """Return a pipeline with a readable file, and two whose path is not UTF-8, one because of its folder."""
    for number, name in enumerate(["x", "caf\udce9", "d\udcff/y"]):
        lake.land(f"landing/ids/{name}.csv", f"{number},2026-03-01T12:00:00Z\n")
    lake.land("landing/ids/z.csv", "100,2026-03-02T12:00:00Z\n")
    return windows_pipeline(lake)


UNREAD = "not read: the names of caf\ufffd.csv, d\ufffd are not UTF-8. With another name a file is read"


def test_a_name_that_is_not_utf8_is_reported_until_it_changes(lake: Lake, unreadable: LakePipeline) -> None:
    reporter = unreadable.run_incremental()
    assert reporter.status.notes == [UNREAD]
    assert windows(lake) == [[0]]
    folder = lake.root / "landing/ids"
    (folder / "caf\udce9.csv").rename(folder / "café.csv")
    (folder / "d\udcff").rename(folder / "d")
    lake.land("landing/ids/zz.csv", "101,2026-03-03T12:00:00Z\n")
    assert unreadable.run_incremental().status.notes == []


@pytest.mark.parametrize("discovers", [False, True])
def test_a_name_that_is_not_utf8_is_reported_without_a_batch(lake: Lake, discovers: bool) -> None:
    lake.land("landing/ids/caf\udce9.csv", "id\n1\n")
    discovered = {"schema": None, "schema_evolution": "rescue", "options": {"header": True}}
    pipeline = ids_pipeline(lake, **discovered if discovers else {})
    reporter = pipeline.run_incremental()
    assert (reporter.status.batches, len(reporter.status.notes)) == (0, 1)
    folder = lake.root / "landing/ids"
    (folder / "caf\udce9.csv").rename(folder / "caf\u00e9.csv")
    assert pipeline.run_incremental().status.notes == []
    assert [int(row["id"]) for row in lake.rows("bronze/ids")] == [1]


def test_a_backfill_reports_a_name_that_is_not_utf8(lake: Lake, unreadable: LakePipeline) -> None:
    unreadable.run_incremental()
    reporter = unreadable.backfill("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")
    assert reporter.status.notes == [UNREAD]
    assert windows(lake) == [[0]]


def test_the_locale_of_a_driver_changes_no_name(lake: Lake) -> None:
    lake.land("landing/ids/ü.csv", "1\n")
    ids_pipeline(lake)
    with drivers_of(lake.folder) as drivers:
        driver = replace(drivers, variables={"LC_ALL": "C"}).start("ids", "incremental")
        assert driver.process.wait(START_TIMEOUT_SECONDS) == 0
    assert ids(lake) == [1]
