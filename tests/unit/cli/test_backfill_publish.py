"""Staged rows on the command line: published when they are all there, or dropped; tables are left alone."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.small_project import ENVIRONMENT, SmallProject, small_project
from tidemill.backfill.plan import BackfillPlan, load_plan
from tidemill.backfill.progress import ProgressFile, read_progress
from tidemill.backfill.staging import is_asked_for, staging_of
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.control.ask.bounded_run import backfill_run, start_bounded

NAME = "readings"
FILES = """
description: Readings from files.
owner: tests
source:
  files: {path: landing, format: json, schema: "id long, at timestamp"}
event_time: {column: at, watermark: 10 minutes}
sinks:
  - delta: {table: bronze/readings}
"""
RANGE = ("--from", "2026-01-01", "--to", "2026-01-02")
NOW = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_driver:fake_driver_command")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    with small_project(tmp_path / "drivers") as made:
        made.declare(NAME, FILES)
        yield made


@pytest.fixture
def tidemill(drivers: SmallProject, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(drivers.folder, capsys.readouterr)


@pytest.fixture
def plan(tidemill: CommandLine, drivers: SmallProject) -> BackfillPlan:
    digest = tidemill.json("backfill", "plan", NAME, *RANGE, "--publish", "later")["digest"]
    plane = drivers.plane()
    return load_plan(plane.store, plane.layout, NAME, digest)


def stage(drivers: SmallProject, plan: BackfillPlan, **changes: Any) -> ProgressFile:
    """Stage all rows, in one file."""
    plane = drivers.plane()
    progress = ProgressFile(plane.store, plane.layout, plan, "r")
    progress.change(chunks=1, staged_at=NOW, **changes)
    file = f"{staging_of(plane.layout, plan, progress.now).table('bronze/readings')}/part-0.parquet"
    plane.store.write(file, b"rows")
    return progress


def staged_files(drivers: SmallProject, plan: BackfillPlan) -> int:
    plane = drivers.plane()
    return len(plane.store.list_files(plane.layout.staged(NAME, plan.digest)))


def files_of(drivers: SmallProject) -> list[Path]:
    return sorted(path for path in drivers.folder.rglob("*") if path.is_file())


def test_a_plan_that_stages_is_another_one_and_says_so(tidemill: CommandLine, plan: BackfillPlan) -> None:
    assert tidemill("backfill", "plan", NAME, *RANGE, "--publish", "later") == 0
    assert "publish   later" in tidemill.out
    at_once = tidemill.json("backfill", "plan", NAME, *RANGE)
    assert (at_once["publish"], plan.publish) == ("now", "later")
    assert at_once["digest"] != plan.digest


def test_rows_are_published_once_all_are_staged_and_somebody_asks_for_that_attempt(
    tidemill: CommandLine, drivers: SmallProject, plan: BackfillPlan
) -> None:
    words = ("backfill", "publish", NAME, "--plan", plan.digest)
    assert tidemill(*words) == 2
    assert tidemill.err.startswith("TIDE-BACK-061")
    progress, plane = stage(drivers, plan), drivers.plane()
    assert tidemill.json("backfill", "status", NAME)[0]["state"] == "staged"
    # The fake driver does not publish.
    assert tidemill(*words, "--reason", "verified") == 1
    assert is_asked_for(plane.store, plane.layout, plan, progress.now)
    assert [(entry.verb, entry.why) for entry in read_audit(plane.store, plane.layout, NAME)] == [
        ("backfill publish", "verified")
    ]
    # A recomputed result is a new attempt that was not reviewed.
    progress.begin_anew()
    assert not is_asked_for(plane.store, plane.layout, plan, progress.now)


def test_in_a_protected_environment_somebody_else_approves_what_is_published(
    tidemill: CommandLine, drivers: SmallProject, plan: BackfillPlan
) -> None:
    progress, plane = stage(drivers, plan), drivers.plane()
    drivers.environ(ENVIRONMENT + "protected: true\n")
    words = ("backfill", "publish", NAME, "--plan", plan.digest)
    for approver in ((), ("--approved-by", getpass.getuser())):
        assert tidemill(*words, *approver) == 1
        assert tidemill.err.startswith("TIDE-CKPT-036")
    assert not is_asked_for(plane.store, plane.layout, plan, progress.now)
    # The fake driver does not publish.
    assert tidemill(*words, "--approved-by", "bob") == 1
    assert is_asked_for(plane.store, plane.layout, plan, progress.now)
    (entry,) = read_audit(plane.store, plane.layout, NAME)
    assert (entry.verb, entry.by) == ("backfill publish", f"{getpass.getuser()}, approved by bob")


def test_what_is_published_is_not_asked_for_again(
    tidemill: CommandLine, drivers: SmallProject, plan: BackfillPlan
) -> None:
    stage(drivers, plan, published={"bronze/readings": 4}, finished_at=NOW, finished_by="r")
    assert tidemill("backfill", "publish", NAME, "--plan", plan.digest) == 0
    assert "is published" in tidemill.out
    assert tidemill("backfill", "abort", NAME, "--plan", plan.digest) == 2
    assert tidemill.err.startswith("TIDE-BACK-062")


def test_aborting_deletes_what_is_staged_and_forgets_what_was_done(
    tidemill: CommandLine, drivers: SmallProject, plan: BackfillPlan
) -> None:
    stage(drivers, plan)
    plane = drivers.plane()
    for told in ("staged rows were deleted", "nothing is staged"):
        assert tidemill("backfill", "abort", NAME, "--plan", plan.digest) == 0, tidemill.err
        assert told in tidemill.out
    assert staged_files(drivers, plan) == 0
    assert read_progress(plane.store, plane.layout, NAME, plan.digest) is None
    assert [entry.verb for entry in read_audit(plane.store, plane.layout, NAME)] == ["backfill abort"]


def test_what_is_at_work_or_half_published_is_not_aborted(
    tidemill: CommandLine, drivers: SmallProject, plan: BackfillPlan
) -> None:
    words = ("backfill", "abort", NAME, "--plan", plan.digest)
    stage(drivers, plan, since={"bronze/readings": 3})
    assert tidemill(*words) == 2
    assert "publishing has begun" in tidemill.err
    drivers.hold_back(NAME)
    stage(drivers, plan, since=None)
    plane = drivers.plane()
    start_bounded(plane, backfill_run(NAME, plan.digest))
    assert tidemill(*words) == 2
    assert "a driver is at work" in tidemill.err
    drivers.let_go(NAME)
    eventually(lambda: drivers.plane().running(NAME, "backfill") is None, "the driver has ended")
    assert staged_files(drivers, plan) > 0


@pytest.mark.parametrize("reason", ["two\nlines", "x" * 2000, "\x1b[31mred"])
def test_a_reason_that_cannot_be_kept_touches_nothing(
    tidemill: CommandLine, drivers: SmallProject, plan: BackfillPlan, reason: str
) -> None:
    stage(drivers, plan)
    before = files_of(drivers)
    for verb in ("publish", "abort"):
        assert tidemill("backfill", verb, NAME, "--plan", plan.digest, "--reason", reason) == 2
        assert tidemill.err.startswith("TIDE-CKPT-031")
    assert files_of(drivers) == before


@pytest.mark.parametrize("digest", ["", "..", "../../etc", "0" * 12, "A" * 12, "1e2f"])
def test_a_plan_that_is_none_touches_nothing(
    tidemill: CommandLine, drivers: SmallProject, digest: str
) -> None:
    before = files_of(drivers)
    for verb in ("publish", "abort"):
        assert tidemill("backfill", verb, NAME, "--plan", digest) == 2
        assert tidemill.err.startswith("TIDE-BACK-016")
    assert files_of(drivers) == before
