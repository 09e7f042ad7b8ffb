"""The repository's own pipelines that need no broker, run as they are declared."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import DeltaTable
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.lake import REPOSITORY, Lake, LakePipeline
from tests.support.running_stream import running_stream
from tidemill import testing
from tidemill.engine.task_watch import Work, work_of
from tidemill.errors import UsageError


def counted(lake: Lake) -> dict[str, int]:
    rows = lake.rows("gold/word_count")
    counts = {row["word"]: row["occurrences"] for row in rows}
    assert len(counts) == len(rows), "a word stands twice"
    return counts


@pytest.fixture
def word_count(lake: Lake) -> LakePipeline:
    lake.land("landing/words/1.txt", "The mill fills\nits pond, the pond turns\n")
    lake.land("landing/words/2.txt", "the wheel. It's THE wheel!\n")
    return lake.copy_pipeline("word_count")


COUNTS = {"the": 4, "mill": 1, "fills": 1, "its": 1, "pond": 2, "turns": 1, "wheel": 2, "it's": 1}


def test_words_are_counted_over_all_files_and_runs(tidemill_spark: SparkSession, tmp_path: Path) -> None:
    run = testing.pipeline(REPOSITORY / "conf/pipelines/word_count.yaml", tmp_path, tidemill_spark)
    run.add_rows([{"value": "The mill fills the pond"}, {"value": "the wheel. It's THE wheel!"}])
    run.advance()
    counts = {"fills": 1, "it's": 1, "mill": 1, "pond": 1, "the": 4, "wheel": 2}
    assert [tuple(row.values()) for row in run.table("gold/word_count")] == list(counts.items())
    run.add_rows([{"value": "pond"}])
    run.advance()
    counts["pond"] = 2
    assert [tuple(row.values()) for row in run.table("gold/word_count")] == list(counts.items())


def test_a_run_without_new_words_changes_nothing(lake: Lake, word_count: LakePipeline) -> None:
    word_count.run_incremental()
    ledger = lake.ledger("gold/word_count")
    word_count.run_incremental()
    assert lake.ledger("gold/word_count") == ledger


def test_a_backfill_of_words_counted_live_is_refused_and_changes_nothing(
    lake: Lake, word_count: LakePipeline
) -> None:
    word_count.run_incremental()
    with pytest.raises(UsageError) as refused:
        word_count.backfill()
    assert refused.value.error_id == "TIDE-BACK-010"
    assert counted(lake) == COUNTS
    assert [commit.entry.mode for commit in lake.ledger("gold/word_count") if commit.entry] == ["incremental"]


@pytest.mark.soak
def test_words_counted_by_a_backfill_are_the_same_and_the_first_run_goes_on(
    lake: Lake, word_count: LakePipeline
) -> None:
    word_count.backfill()
    assert counted(lake) == COUNTS
    word_count.backfill()
    assert counted(lake) == COUNTS
    lake.land("landing/words/3.txt", "pond\n")
    word_count.run_incremental()
    assert counted(lake) == {**COUNTS, "pond": 3}
    modes = [commit.entry.mode for commit in lake.ledger("gold/word_count") if commit.entry]
    assert modes == ["incremental", "backfill", "backfill"]


def test_the_tasks_of_a_backfill_are_seen_while_it_works(
    word_count: LakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Work] = []

    def remembered(context: SparkContext) -> Work:
        seen.append(work_of(context))
        return seen[-1]

    monkeypatch.setattr("tidemill.engine.backfill.work_of", remembered)
    monkeypatch.setattr("tidemill.engine.task_watch.WAKE_SECONDS", 0.01)
    monkeypatch.setattr("tidemill.engine.task_watch.LOOK_SECONDS", 0.0)
    word_count.backfill()
    assert [work for work in seen if work.stages]


def reading(number: int, **other: Any) -> dict[str, Any]:
    return {
        "Arrival_Time": 1_424_686_735_000 + number,
        "Creation_Time": 1_424_686_733_090_638_193 + number,
        "Device": "nexus4_1",
        "Index": 35,
        "Model": "nexus4",
        "User": "g",
        "gt": "stand",
        "x": 0.0014038086,
        "y": -number,
        "z": None,
        **other,
    }


FILES = 3


@pytest.fixture
def activity_data(lake: Lake) -> LakePipeline:
    for number in range(FILES):
        lake.land_rows(f"landing/activity_data/{number}.json", [reading(number), reading(number + 100)])
    return lake.copy_pipeline("activity_data")


def test_each_file_is_a_batch_and_each_batch_a_commit(lake: Lake, activity_data: LakePipeline) -> None:
    activity_data.run_incremental()
    ledger = lake.ledger("bronze/activity_data")
    assert [(c.entry.batch_id, c.rows) for c in ledger if c.entry] == [(2, 2), (1, 2), (0, 2)]
    assert sorted(-row["y"] for row in lake.rows("bronze/activity_data")) == [0, 1, 2, 100, 101, 102]
    # The oldest file first.
    path, files = str(lake.root / "tables/bronze/activity_data"), set[str]()
    for number, commit in enumerate(reversed([c for c in ledger if c.entry])):
        new = set(DeltaTable(path, version=commit.version).file_uris()) - files
        assert sorted(-y for file in new for y in pq.read_table(file)["y"].to_pylist()) == [
            number,
            number + 100,
        ]
        files |= new


def test_readings_have_clear_columns(tidemill_spark: SparkSession, tmp_path: Path) -> None:
    run = testing.pipeline(REPOSITORY / "conf/pipelines/activity_data.yaml", tmp_path, tidemill_spark)
    run.add_rows([reading(2)])
    run.advance()
    (row,) = run.table("bronze/activity_data")
    assert row == {
        "Arrival_Time": datetime(2015, 2, 23, 10, 18, 55, 2000, UTC),
        "Creation_Time": 1_424_686_733_090_638_195,
        "Device": "nexus4_1",
        "User_ID": 35,
        "Model": "nexus4",
        "User": "g",
        "gt": "stand",
        "x": 0.0014038086,
        "y": -2.0,
        "z": None,
    }


def test_a_second_run_reads_new_files_only(lake: Lake, activity_data: LakePipeline) -> None:
    activity_data.run_incremental()
    activity_data.run_incremental()
    assert len(lake.ledger("bronze/activity_data")) == FILES
    lake.land_rows("landing/activity_data/new.json", [reading(7)])
    activity_data.run_incremental()
    assert len(lake.ledger("bronze/activity_data")) == FILES + 1
    assert len(lake.rows("bronze/activity_data")) == 2 * FILES + 1


def test_readings_go_out_as_json_files_once(lake: Lake, activity_data: LakePipeline) -> None:
    declared = lake.folder / "conf/pipelines/activity_data.yaml"
    document = yaml.safe_load(declared.read_text())
    document["sinks"] = [{"files": {"path": "exports/activity_data", "format": "json"}}]
    declared.write_text(yaml.safe_dump(document))
    activity_data.run_incremental()
    activity_data.run_incremental()
    written = lake.spark.read.json(str(lake.root / "exports/activity_data"))
    assert sorted(-row["y"] for row in written.select("y").collect()) == [0, 1, 2, 100, 101, 102]
    assert [row["User_ID"] for row in written.select("User_ID").distinct().collect()] == [35]


def test_each_batch_tells_what_it_read_and_what_ran(lake: Lake, activity_data: LakePipeline) -> None:
    reporter = activity_data.run_incremental()
    newest = lake.ledger("bronze/activity_data")[0].entry
    assert newest is not None
    assert (newest.pipeline, newest.output, newest.mode) == (
        "activity_data",
        "bronze/activity_data",
        "incremental",
    )
    assert (newest.generation, newest.epoch) == ("g0001", 1)
    assert newest.sources["source"].start == {"logOffset": 1}
    assert newest.sources["source"].end == {"logOffset": 2}
    assert newest.query_id == activity_data.query_id
    assert newest.code.spec == activity_data.resolved.digest
    assert reporter.status.batch_id == FILES - 1
    assert reporter.status.rows_by_output == {"bronze/activity_data": 2 * FILES}


def test_rows_are_made_up_batch_by_batch_and_windows_close_as_their_time_passes(lake: Lake) -> None:
    made_up = lake.copy_pipeline("rate_windows")
    for _ in range(2):
        made_up.run_incremental()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert lake.rows("silver/rate_windows") == [{"window_start": start, "rows": 1000, "newest": 999}]


def test_rows_of_the_clock_are_numbered_without_a_gap(lake: Lake) -> None:
    clock = lake.pipeline(
        "clock",
        source={"rate": {"rows_per_second": 50, "ramp_up": "2 seconds"}},
        sinks=[{"delta": {"table": "bronze/clock"}}],
        run={"mode": "stream", "trigger": "0 seconds"},
    )

    def numbers() -> list[int]:
        return (
            sorted(row["value"] for row in lake.rows("bronze/clock")) if lake.ledger("bronze/clock") else []
        )

    with running_stream(clock) as stream:
        stream.wait_until(lambda: len(numbers()) > 10, "rows come")
        stream.drain()
    assert numbers() == list(range(len(numbers())))
