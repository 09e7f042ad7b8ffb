"""Golden checkpoints: what a release wrote, kept in `tests/data/checkpoints/<Spark version>/<name>/`.

`lake.tar.gz` is the storage of a small lake in the middle of its work: a source table, a pipeline's
checkpoint and its table. `expected.json` has the rows of a run that was never interrupted. A Delta table is
the source because nothing in such a checkpoint is an absolute path: it can be carried to another folder.

    .venv/bin/python -m tests.support.golden     writes those of the installed Spark that are missing

A stored one is never written again: it is what that release left behind.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tests.support.golden_lakes import STORED, expected_rows, unpack
from tests.support.lake import Lake, LakePipeline

SOURCE_TABLE = "bronze/readings"
START = datetime(2024, 1, 1, tzinfo=UTC)
# Number of commits of the source table, one batch each, and of those that the stored checkpoint has read.
COMMITS = 6
READ = 4
ROWS_OF_A_COMMIT = 12

_COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("device", pa.string()),
        ("kind", pa.string()),
        ("value", pa.float64()),
    ]
)
_STATE = "spark.sql.streaming.stateStore"
# So that there are snapshots among the few versions. They are written in the background, and a second
# run would find the stores loaded; so a checkpoint is stored with those that were there when it ended.
_SNAPSHOTS = {f"{_STATE}.minDeltasForSnapshot": "2", f"{_STATE}.maintenanceInterval": "100ms"}
_FORMAT_1 = {f"{_STATE}.checkpointFormatVersion": "1"}
_HDFS = {
    **_FORMAT_1,
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}

STATELESS = """
from pyspark.sql import functions as F

def transform(readings):
    return readings.select("id", "at", (F.col("value") * 2).alias("twice"))
"""
WINDOWED = """
from pyspark.sql import functions as F

def transform(readings):
    windows = readings.groupBy(F.window("at", "5 minutes"), "device")
    sums = windows.agg(F.count("*").alias("readings"), F.sum("value").alias("total"))
    return sums.select(F.col("window.start").alias("window_start"), "device", "readings", "total")
"""
JOIN = """
from pyspark.sql import functions as F

def transform(readings):
    asked = readings.where("kind = 'asked'").selectExpr("id AS asked_id", "at AS asked_at")
    answered = readings.where("kind = 'answered'").select("id", "at", "value")
    in_time = "asked_id = id AND at BETWEEN asked_at AND asked_at + INTERVAL 15 MINUTES"
    pairs = asked.join(answered, F.expr(in_time), how="inner")
    return pairs.select("id", "asked_at", F.col("at").alias("answered_at"), "value")
"""
DEDUP = """
def transform(readings):
    return readings.dropDuplicates(["id", "at"]).select("id", "at", "device")
"""


@dataclass(frozen=True)
class Golden:
    """One kind of query.

    Args:
        name: Name of the pipeline, table and folder.
        code: Content of the transform file.
        conf: Spark settings that it was born with, where they are not the engine's.
    """

    name: str
    code: str
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return f"silver/{self.name}"

    def declare(self, lake: Lake) -> LakePipeline:
        return lake.pipeline(
            self.name,
            source={"delta": {"table": SOURCE_TABLE, "max_files_per_batch": 1}},
            event_time={"column": "at", "watermark": "10 minutes"},
            transform=lake.transform(self.name, self.code),
            sinks=[{"delta": {"table": self.table}}],
            run={"mode": "incremental"},
        )

    def rows(self, lake: Lake) -> list[str]:
        return sorted(json.dumps(row, default=str, sort_keys=True) for row in lake.rows(self.table))

    def unpack(self, release: str, root: Path) -> Path:
        """Put the storage as the release left it to `root`; returns the checkpoint."""
        return unpack(self.name, release, root)

    def expected_rows(self, release: str) -> list[str]:
        """Return the rows of the table after the resumed run has read the rest."""
        return expected_rows(self.name, release)


GOLDENS = {
    golden.name: golden
    for golden in (
        Golden("stateless", STATELESS),
        Golden("windowed", WINDOWED, _SNAPSHOTS),
        Golden("join", JOIN),
        Golden("dedup", DEDUP),
        # Checkpoints that users bring along, made without the engine's defaults.
        Golden("windowed_format_1", WINDOWED, {**_SNAPSHOTS, **_FORMAT_1}),
        Golden("windowed_hdfs", WINDOWED, {**_SNAPSHOTS, **_HDFS}),
    )
}


def commit_readings(lake: Lake, commits: range) -> None:
    """Append some of the source table's commits: 5 minutes of readings each; the next repeats a third."""
    for number in commits:
        rows = [_reading(number, place) for place in range(ROWS_OF_A_COMMIT)]
        if number > 0:
            rows += [_reading(number - 1, place) for place in range(0, ROWS_OF_A_COMMIT, 3)]
        table = pa.Table.from_pylist(rows, schema=_COLUMNS)
        write_deltalake(str(lake.root / "tables" / SOURCE_TABLE), table, mode="append")


def make(golden: Golden, spark: Any, work: Path, folder: Path) -> None:
    """Run a part of the work and store it; then all of it elsewhere, for the expected rows."""
    before = {name: spark.conf.get(name, None) for name in golden.conf}
    for name, value in golden.conf.items():
        spark.conf.set(name, value)
    part = Lake(work / golden.name / "part", spark)
    commit_readings(part, range(READ))
    golden.declare(part).run_incremental()
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
    whole = Lake(work / golden.name / "whole", spark)
    commit_readings(whole, range(COMMITS))
    golden.declare(whole).run_incremental()
    folder.mkdir(parents=True)
    with tarfile.open(folder / "lake.tar.gz", "w:gz") as archive:
        for stored in ("tables", f"state/{golden.name}/current", f"state/{golden.name}/g0001"):
            archive.add(part.root / stored, stored)
    (folder / "expected.json").write_text(json.dumps(golden.rows(whole), indent=1) + "\n")


def _reading(commit: int, place: int) -> dict[str, Any]:
    # Every answer comes one commit after its question, so the join needs state across batches.
    number = commit * ROWS_OF_A_COMMIT + place
    answered = place % 2 == 1 and commit > 0
    return {
        "id": number - ROWS_OF_A_COMMIT - 1 if answered else number,
        "at": START + timedelta(minutes=5 * commit, seconds=20 * place),
        "device": f"d{place % 2}",
        "kind": "answered" if answered else "asked",
        "value": float(number),
    }


def _make_missing() -> None:
    from tidemill.testing.session import shared_session

    with tempfile.TemporaryDirectory() as work:
        spark = shared_session(Path(work) / "session")
        try:
            for golden in GOLDENS.values():
                folder = STORED / spark.version / golden.name
                if not folder.exists():
                    make(golden, spark, Path(work), folder)
                    sys.stdout.write(f"{folder}\n")
        finally:
            spark.stop()


if __name__ == "__main__":
    _make_missing()
