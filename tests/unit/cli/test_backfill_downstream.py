"""Stale tables after a backfill on the command line: in order, once, and only after the backfill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.command_line import CommandLine
from tests.support.fake_driver import ROOT
from tests.support.small_project import SmallProject, small_project
from tidemill.backfill.plan import load_plan
from tidemill.backfill.progress import ProgressFile
from tidemill.backfill.row_origin import EventWindow, RowOrigin, keep_origin
from tidemill.spec.project import resolve_pipeline

READINGS = """
description: Readings from files.
owner: tests
source:
  files: {path: landing, format: json, schema: "id long, at timestamp"}
event_time: {column: at, watermark: 10 minutes}
sinks:
  - delta: {table: bronze/readings}
"""
NEXT = """
description: Hours of what another pipeline writes.
owner: tests
source:
  delta: {table: TABLE, changes: skip}
event_time: {column: at, watermark: 10 minutes}
transform: hours:transform
sinks:
  - delta: {table: silver/%(name)s}
"""
RANGE = ("--from", "2026-01-01", "--to", "2026-01-02")
NOW = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    """Readings, hours of them, and hours of the hours."""
    monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_driver:fake_driver_command")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    with small_project(tmp_path / "drivers") as made:
        transforms = made.folder / "spark_apps" / "transforms"
        transforms.mkdir(parents=True, exist_ok=True)
        (transforms / "hours.py").write_text("def transform(rows):\n    return rows\n")
        made.declare("readings", READINGS)
        made.declare("a_second", NEXT.replace("TABLE", "silver/first"))
        made.declare("first", NEXT.replace("TABLE", "bronze/readings"))
        for name in ("first", "a_second"):
            has_run(made, name)
        yield made


def has_run(drivers: SmallProject, name: str) -> None:
    """Create the table and the analysis of the code, with windows of an hour."""
    plane, pipeline = drivers.plane(), resolve_pipeline(drivers.environment, name)
    hour = timedelta(hours=1)
    window = EventWindow(kind="tumbling", length=hour, slide=hour, start_columns=("at",))
    keep_origin(plane.store, pipeline, RowOrigin(window=window, stateful=True))
    # Create the tables that the fake driver would create.
    for table in ("bronze/readings", f"silver/{name}"):
        write_deltalake(plane.layout.table(table), pa.table({"value": [1]}), mode="ignore")


@pytest.fixture
def tidemill(drivers: SmallProject, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(drivers.folder, capsys.readouterr)


def finish(drivers: SmallProject, digest: str, at: datetime) -> None:
    plane = drivers.plane()
    plan = load_plan(plane.store, plane.layout, "readings", digest)
    ProgressFile(plane.store, plane.layout, plan, "r").change(finished_at=at, finished_by="r")


def left(tidemill: CommandLine, digest: str) -> list[Any]:
    return [part["pipeline"] for part in tidemill.json(*words(digest), "--json")]


def words(digest: str) -> tuple[str, ...]:
    return ("backfill", "downstream", "readings", "--plan", digest)


def test_what_is_behind_a_backfill_is_told_with_its_plan_and_done_in_order_once_it_is_over(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    plan = tidemill.json("backfill", "plan", "readings", *RANGE)
    assert [(part["pipeline"], part["way"]) for part in plan["downstream"]] == [
        ("first", "backfill"),
        ("a_second", "backfill"),
    ]
    digest = plan["digest"]
    assert tidemill(*words(digest), "--apply") == 2
    assert tidemill.err.startswith("TIDE-BACK-064")

    finish(drivers, digest, NOW)
    # The second one fails: what is done before it stays done.
    drivers.behave("a_second", "exit 69")
    assert tidemill(*words(digest), "--apply") == 69
    assert left(tidemill, digest) == ["a_second"]
    drivers.behave("a_second", "run")
    assert tidemill(*words(digest), "--apply") == 0, tidemill.err
    assert left(tidemill, digest) == []
    assert tidemill(*words(digest)) == 0
    assert "Nothing is left to do" in tidemill.out
    # After another end of the backfill everything is stale again.
    finish(drivers, digest, NOW + timedelta(hours=1))
    assert left(tidemill, digest) == ["first", "a_second"]


def test_what_reads_a_table_that_is_still_stale_is_not_processed_again(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    plane, pipeline = drivers.plane(), resolve_pipeline(drivers.environment, "first")
    Path(plane.layout.root, "state", "first").rename(plane.layout.root + "/gone")
    keep_origin(plane.store, pipeline, RowOrigin(stateful=True, reason="sums of all times"))
    digest = tidemill.json("backfill", "plan", "readings", *RANGE)["digest"]
    finish(drivers, digest, NOW)
    assert tidemill(*words(digest), "--apply") == 1
    assert "first is left to you: tidemill checkpoint reset first" in tidemill.out
    assert "a_second is left to you: once silver/first is right" in tidemill.out
    assert left(tidemill, digest) == ["first", "a_second"]
