"""Project folders with odd legal names: runs, operations and rows are those of a folder with a plain name.

`tests/unit/spec/test_odd_roots.py` has the names that are refused.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.command_line import CommandLine
from tests.support.lake import Lake, LakePipeline
from tidemill.spec.location import MAX_LOCATION

# One name with special characters of every class except the colon, which no pattern may have above it.
ALL = " a#b?c-ü;&+='\"`q` [x]{a,b}*! $HOME|^<>😀 100% %zz ~@ ,() "
ALONE = {
    "plain": "plain",
    "percent": "100%",
    "hash": "a#b",
    "question": "a?b",
    "brackets": "[x]",
    "braces": "{a,b}",
    "star": "a*b",
    "colon": "file:",
    "quotes": 'it\'s "b" `c`',
    "spaces": " a b ",
    "composed": unicodedata.normalize("NFC", "Übermäßig"),
    "decomposed": unicodedata.normalize("NFD", "Übermäßig"),
    "long": "x" * 250,
    "deep": "/".join(["x" * 250] * 13),
    "hidden": ".a",
    "underscore": "_a",
}
NAMES = [
    pytest.param(ALL, id="all"),
    *(pytest.param(name, id=kind, marks=pytest.mark.soak) for kind, name in ALONE.items()),
]

MINUTES = """
from pyspark.sql import functions as F

def transform(events):
    sums = F.sum("id").alias("ids"), F.max("day").alias("day")
    minutes = events.groupBy(F.window("at", "1 minute")).agg(*sums)
    return minutes.select(F.col("window.start").alias("minute"), "ids", "day")
"""

# Nothing runs any more, and of each it matters that it finds its files.
LOOKS = [
    ("validate",),
    ("status",),
    ("ledger", "sums"),
    ("checkpoint", "inspect", "raw"),
    ("checkpoint", "backup", "raw", "--apply"),
    ("lineage", "show", "raw", "--since", "2020-01-01T00:00:00Z"),
    ("plan", "raw"),
]


class OddProject:
    """A pipeline that reads files and one that reads its table, in one folder."""

    def __init__(self, folder: Path, spark: SparkSession, read_output: Callable[[], Any]) -> None:
        self.lake = Lake(folder, spark)
        # A URI: the clients must agree on its escapes.
        uri = (folder / "data").as_uri()
        self.lake.configure(root=uri if len(uri) <= MAX_LOCATION else "data")
        self.tidemill = CommandLine(folder, read_output)
        files = {"path": "landing/events", "format": "json", "schema": "id long, at timestamp, day int"}
        self.raw = self.lake.pipeline(
            "raw",
            source={"files": files},
            sinks=[{"delta": {"table": "bronze/events"}}],
            run={"mode": "incremental"},
        )
        self.sums = self.lake.pipeline(
            "sums",
            source={"delta": {"table": "bronze/events"}},
            event_time={"column": "at", "watermark": "1 minute"},
            transform=self.lake.transform("sums", MINUTES),
            sinks=[{"delta": {"table": "gold/sums", "mode": "merge", "key": ["minute"], "time": "minute"}}],
            run={"mode": "incremental", "shuffle_partitions": 2},
        )

    def land(self, *ids: int) -> None:
        """Deliver a file with a broken line, in a folder that is a column."""
        rows = [json.dumps({"id": i, "at": f"2024-01-01T00:0{i}:00Z"}) for i in ids]
        self.lake.land(f"landing/events/day={ids[0]}/events.json", "\n".join([*rows, "{broken", ""]))

    def run(self) -> None:
        self.raw.run_incremental()
        self.sums.run_incremental()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.tidemill.json("query", sql)]

    def events(self) -> list[tuple[Any, ...]]:
        return self.query("SELECT id, day FROM bronze.events ORDER BY id")

    def minutes(self) -> list[tuple[Any, ...]]:
        return self.query("SELECT ids, day FROM gold.sums ORDER BY ids")

    def batches(self, pipeline: LakePipeline) -> list[int]:
        """Return batches in the ledger, newest first."""
        table = {"raw": "bronze/events", "sums": "gold/sums"}[pipeline.name]
        found = self.lake.ledger(table)
        return [
            commit.entry.batch_id for commit in found if commit.entry and commit.entry.batch_id is not None
        ]


@pytest.mark.parametrize("name", NAMES)
def test_a_project_folder_may_have_any_legal_name(
    tmp_path: Path, spark: SparkSession, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project = OddProject(tmp_path / "at" / name / "project", spark, capsys.readouterr)
    project.land(1, 2, 3)
    # Names that would match if the name were a pattern, or if it ended as a URL does.
    for neighbour in ("x", "a", "aab", "a1b"):
        other = Lake(tmp_path / "at" / neighbour / "project", spark)
        other.land_rows("landing/events/day=9/events.json", [{"id": 9, "at": "2024-01-01T00:09:00Z"}])
    project.run()
    project.land(4, 5)
    project.run()
    events, minutes = [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)], [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)]
    assert project.events() == events
    assert project.minutes() == minutes
    assert project.query("SELECT count(*) FROM quarantine.raw WHERE reason = 'malformed_json'") == [(2,)]
    assert project.batches(project.raw) == [1, 0]
    for look in LOOKS:
        assert project.tidemill(*look) == 0, f"{look}: {project.tidemill.err}"
    rewind = ("checkpoint", "rewind", "raw", "--to", "0", "--apply", "--reason", "test")
    assert project.tidemill(*rewind) == 0, project.tidemill.err
    assert project.events() == events[:3]
    project.raw.run_incremental()
    assert project.events() == events
    project.sums.backfill("2024-01-01T00:00:00Z", "2024-01-01T00:04:00Z")
    assert project.minutes() == minutes
