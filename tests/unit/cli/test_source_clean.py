"""Files that were read go by `tidemill source clean` and by the daily care, with the same refusals."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ENVIRONMENT, ConfProject
from tests.support.landed_files import LandedFiles
from tidemill.backfill.bounds import Bounds
from tidemill.backfill.plan import BackfillPlan, save_plan
from tidemill.backfill.progress import Progress
from tidemill.checkpoint.holds import Hold, drop_hold, take_hold
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.control.hygiene import Care, look_after
from tidemill.control.plane import open_control_plane

PIPELINE = """
description: Orders from files.
owner: tests
source:
  files: {path: landing/orders, format: json, schema: id long, after: %s}
sinks:
  - delta: {table: bronze/orders}
"""
TWO_DAYS_AGO = time.time() - 2 * 24 * 3600


@pytest.fixture
def orders(project: ConfProject) -> LandedFiles:
    """Return two files that were read two days ago, and one that was not."""
    project.write("conf/pipelines/orders.yaml", PIPELINE % "archive")
    landed = LandedFiles(project.resolve())
    landed.land("a.json", "b.json", "c.json")
    for file in (Path(landed.store.root) / "landing/orders").iterdir():
        os.utime(file, (TWO_DAYS_AGO, TWO_DAYS_AGO))
    landed.read("a.json")
    landed.read("b.json")
    for file in (Path(landed.checkpoint) / "commits").iterdir():
        os.utime(file, (TWO_DAYS_AGO, TWO_DAYS_AGO))
    return landed


def care_for(project: ConfProject) -> Care:
    return look_after(open_control_plane(project.load(), {}), "orders", "airflow")


def test_the_plan_changes_nothing_and_prints_the_command(tidemill: CommandLine, orders: LandedFiles) -> None:
    assert tidemill("source", "clean", "orders") == 0
    root = orders.store.root
    assert tidemill.out.splitlines()[:3] == [
        f"source: 2 files, 12 bytes: to {root}/archived/landing/orders",
        f"  from {root}/landing/orders/a.json to {root}/landing/orders/b.json, all older than 4 hours",
        "  1 stay: not read yet, or a rewind would read them again",
    ]
    assert "source clean orders --reason TEXT --apply" in tidemill.out
    assert orders.files("landing/orders") == ["a.json", "b.json", "c.json"]


def test_the_plan_of_the_pipeline_says_what_goes_and_what_cannot_be_done_then(
    tidemill: CommandLine, orders: LandedFiles
) -> None:
    assert tidemill("plan", "orders", "--json") == 0
    assert json.loads(tidemill.out)["retention"]["read_files"] == {
        "source": {
            "after": "archive",
            "older_than": "4 hours",
            "to": f"{orders.store.root}/archived/landing/orders",
            "not_possible_then": "a rewind further back",
        }
    }


def test_apply_archives_what_nothing_needs(tidemill: CommandLine, orders: LandedFiles) -> None:
    assert tidemill("source", "clean", "orders", "--apply", "--by", "ann", "--json") == 0
    assert json.loads(tidemill.out)["applied"] is True
    assert orders.files("landing/orders") == ["c.json"]
    assert orders.files("archived/landing/orders") == ["a.json", "b.json"]
    (entry,) = read_audit(orders.store, orders.resolved.layout)
    assert (entry.verb, entry.by, entry.why) == ("clean", "ann", "hygiene")
    assert tidemill("source", "clean", "orders", "--apply") == 0
    assert "Nothing was done." in tidemill.out


def test_a_protected_environment_asks_for_approval(
    tidemill: CommandLine, project: ConfProject, orders: LandedFiles
) -> None:
    project.write("conf/environments/local.yaml", f"{ENVIRONMENT}\nprotected: true\n")
    assert tidemill("source", "clean", "orders", "--apply", "--by", "ann") == 1
    assert "TIDE-CKPT-036" in tidemill.err
    assert "only planned" in care_for(project).done[-1]
    assert orders.files("archived") == []
    assert tidemill("source", "clean", "orders", "--apply", "--by", "ann", "--approved-by", "ben") == 0
    assert orders.files("archived/landing/orders") == ["a.json", "b.json"]


def test_the_daily_care_archives_after_its_prune(project: ConfProject, orders: LandedFiles) -> None:
    care = care_for(project)
    assert not care.errors
    assert not care.failed
    assert care.done[-1].startswith("files that were read: source: 2 files, 12 bytes: to ")
    assert orders.files("landing/orders") == ["c.json"]
    # The care also made a backup, in which these files count as read.
    assert care.done[0].startswith("backup: 2")


def test_one_that_died_in_the_daily_care_is_completed_by_the_next(
    project: ConfProject, orders: LandedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tidemill.storage.files_store.LocalFiles.move_within", die)
        with pytest.raises(KeyboardInterrupt):
            care_for(project)
    care = care_for(project)
    assert care.done[0].startswith("files that were read that was begun")
    assert not care.errors
    assert orders.files("archived/landing/orders") == ["a.json", "b.json"]


def test_a_pipeline_that_keeps_its_files_is_told_so(tidemill: CommandLine, project: ConfProject) -> None:
    project.write("conf/pipelines/orders.yaml", PIPELINE % "keep")
    assert tidemill("source", "clean", "orders") == 2
    assert "TIDE-FILE-006" in tidemill.err


def test_nothing_goes_while_the_pipeline_is_held(tidemill: CommandLine, orders: LandedFiles) -> None:
    layout = orders.resolved.layout
    take_hold(orders.store, layout, "orders", Hold(id="by-hand", by="ann", why="looking", to_do="ask ann"))
    assert tidemill("source", "clean", "orders", "--apply") == 0
    assert "nothing goes: the pipeline is held: by-hand" in tidemill.out
    drop_hold(orders.store, layout, "orders", "by-hand")
    assert tidemill("source", "clean", "orders", "--apply") == 0
    assert orders.files("landing/orders") == ["c.json"]


@pytest.mark.parametrize("after", ["delete", "archive"])
def test_a_backfill_that_may_go_on_keeps_files_from_being_deleted(
    tidemill: CommandLine, project: ConfProject, orders: LandedFiles, after: str
) -> None:
    project.write("conf/pipelines/orders.yaml", PIPELINE % after)
    plan = BackfillPlan(pipeline="orders", definition="d", bounds=Bounds(), by="everything")
    save_plan(orders.store, orders.resolved.layout, plan)
    path = orders.resolved.layout.backfill_progress("orders", plan.digest)
    orders.store.write_json(path, Progress(begun_at=datetime.now(UTC), chunks=2).model_dump(mode="json"))
    assert tidemill("source", "clean", "orders", "--apply") == 0
    stays = ["a.json", "b.json", "c.json"] if after == "delete" else ["c.json"]
    assert orders.files("landing/orders") == stays


def test_a_neighbour_that_reads_there_is_refused_and_one_whose_file_is_wrong_keeps_all(
    tidemill: CommandLine, project: ConfProject, orders: LandedFiles
) -> None:
    other = (PIPELINE % "keep").replace("bronze/orders", "bronze/other")
    project.write("conf/pipelines/other.yaml", other)
    assert tidemill("source", "clean", "orders", "--apply") == 2
    assert "TIDE-FILE-002" in tidemill.err
    assert "TIDE-FILE-002" in care_for(project).failed[-1]
    project.write("conf/pipelines/other.yaml", "source: [")
    assert tidemill("source", "clean", "orders", "--apply") == 0
    assert "the file of other is wrong" in tidemill.out
    assert orders.files("landing/orders") == ["a.json", "b.json", "c.json"]


def test_a_reset_brings_archived_files_back(tidemill: CommandLine, orders: LandedFiles) -> None:
    assert tidemill("source", "clean", "orders", "--apply") == 0
    assert tidemill("checkpoint", "reset", "orders", "--from", "earliest") == 0
    assert "source: 2 archived files, 12 bytes, are brought back and read again" in tidemill.out
    assert tidemill("checkpoint", "reset", "orders", "--from", "earliest", "--apply", "--reason", "anew") == 0
    assert orders.files("landing/orders") == ["a.json", "b.json", "c.json"]


def test_after_a_reset_that_goes_without_files_in_the_way_the_stream_may_start(
    tidemill: CommandLine, orders: LandedFiles
) -> None:
    assert tidemill("source", "clean", "orders", "--apply") == 0
    orders.store.write(f"{orders.store.root}/landing/orders/a.json", b"another file of this name")
    words = ("checkpoint", "reset", "orders", "--from", "earliest", "--without-missing")
    assert tidemill(*words, "--apply", "--reason", "anew") == 0, tidemill.err
    assert orders.files("archived/landing/orders") == ["a.json"]
    assert tidemill("checkpoint", "gate", "orders") == 0, tidemill.out


def test_a_first_start_beside_an_archive_is_refused_and_a_reset_brings_it_back(
    tidemill: CommandLine, orders: LandedFiles
) -> None:
    assert tidemill("source", "clean", "orders", "--apply") == 0
    for file in orders.store.list_files(f"{orders.store.root}/state/orders/g0001"):
        orders.store.delete(file.path)
    for file in orders.store.list_files(f"{orders.store.root}/tables"):
        orders.store.delete(file.path)
    assert tidemill("checkpoint", "gate", "orders") != 0
    assert "TIDE-CKPT-105" in tidemill.out
    assert "a.json, b.json" in tidemill.out.replace("'", "")
    orders.store.write(f"{orders.store.root}/landing/orders/a.json", b"another file of this name")
    assert tidemill("checkpoint", "gate", "orders") != 0
    assert "b.json, a.json" in tidemill.out.replace("'", "")
    orders.store.delete(f"{orders.store.root}/landing/orders/a.json")
    words = ("checkpoint", "reset", "orders", "--from", "earliest", "--apply", "--reason", "anew")
    assert tidemill(*words) == 0, tidemill.err
    assert orders.files("landing/orders") == ["a.json", "b.json", "c.json"]
    assert tidemill("checkpoint", "gate", "orders") == 0, tidemill.out


def test_a_reset_goes_without_deleted_files_only_if_somebody_says_so(
    tidemill: CommandLine, project: ConfProject, orders: LandedFiles
) -> None:
    project.write("conf/pipelines/orders.yaml", PIPELINE % "delete")
    assert tidemill("source", "clean", "orders", "--apply") == 0
    words = ("checkpoint", "reset", "orders", "--from", "earliest")
    assert tidemill(*words) == 2
    assert "TIDE-FILE-004" in tidemill.err
    assert "count=2" in tidemill.err
    assert tidemill(*words, "--without-missing") == 0
    assert "2 files that are gone are never read again" in tidemill.out
