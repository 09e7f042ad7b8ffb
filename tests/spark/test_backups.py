"""Backups of a live stream: each one, restored here or elsewhere, leads to the same rows."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.command_line import CommandLine
from tests.support.golden import SOURCE_TABLE, WINDOWED, commit_readings
from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import running_stream
from tidemill.checkpoint.verbs.backup import BackupRequest, take_backup

COMMITS = 6
TABLE = "silver/windowed"


def declare(lake: Lake, **run: Any) -> LakePipeline:
    return lake.pipeline(
        "windowed",
        # A table as the source: its checkpoint holds no absolute path, so it can be carried elsewhere.
        source={"delta": {"table": SOURCE_TABLE, "max_files_per_batch": 1}},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("windowed", WINDOWED),
        sinks=[{"delta": {"table": TABLE}}],
        run=run,
    )


def rows(lake: Lake) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in lake.rows(TABLE))


@pytest.mark.soak
def test_backups_of_a_live_stream_lead_to_the_same_rows_here_and_elsewhere(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, elsewhere = Lake(tmp_path / "here", spark), Lake(tmp_path / "elsewhere", spark)
    tidemill = CommandLine(lake.folder, capsys.readouterr)
    commit_readings(lake, range(COMMITS))
    stream = declare(lake, trigger="0 seconds")
    taken: dict[int, str] = {}

    def back_up() -> bool:
        # One of each batch is enough; one is taken in the middle of the next.
        if (stream.checkpoint / f"commits/{max(taken, default=-1) + 1}").exists():
            backup = take_backup(lake.store, stream.resolved, BackupRequest("ann", "test", datetime.now(UTC)))
            taken.setdefault(backup.batch_id, backup.backup)
        return len(lake.ledger(TABLE)) >= COMMITS

    with running_stream(stream) as running:
        running.wait_until(back_up, "the stream has read everything, backed up all the while")
        running.drain()
    # After a start Spark closes windows only once new data has come, so there is some after the last backup.
    commit_readings(lake, range(COMMITS, COMMITS + 2))
    pipeline = declare(lake, mode="incremental")
    pipeline.run_incremental()
    expected = rows(lake)
    assert len(taken) >= 3, taken
    early, middle = (taken[sorted(taken)[place]] for place in (0, len(taken) // 2))
    restore(tidemill, middle)
    assert rows(lake) != expected
    pipeline.run_incremental()
    assert rows(lake) == expected

    shutil.copytree(lake.root / "tables", elsewhere.root / "tables")
    shutil.copytree(lake.root / "state/windowed/backups", elsewhere.root / "state/windowed/backups")
    carried = declare(elsewhere, mode="incremental")
    restore(CommandLine(elsewhere.folder, capsys.readouterr), early)
    carried.run_incremental()
    assert rows(elsewhere) == expected


def restore(tidemill: CommandLine, backup: str) -> None:
    verb = ("checkpoint", "restore", "windowed", backup, "--reason", "test", "--apply")
    assert tidemill(*verb) == 0, tidemill.err
