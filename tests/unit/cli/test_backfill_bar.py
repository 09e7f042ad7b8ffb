"""`tidemill backfill apply`: its chunks as they are done, or the driver's log; with real processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.command_line import CommandLine
from tests.support.fake_driver import ROOT
from tests.support.small_project import READINGS, SmallProject, small_project
from tidemill.backfill.plan import load_plan
from tidemill.backfill.progress import ChunkDone, Progress, ProgressFile
from tidemill.cli import backfill_bar
from tidemill.cli.backfill_bar import chunks_shown
from tidemill.control.runtime import StartedDriver

RANGE = ("--from", "2026-01-01T00:00", "--to", "2026-01-02T00:00")
DONE = ChunkDone(
    rows={"bronze/readings": 5},
    versions={"bronze/readings": 3},
    records=None,
    seconds=60,
    run_id="r",
    at=datetime(2026, 11, 23, tzinfo=UTC),
)


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_driver:fake_driver_command")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    with small_project(tmp_path / "drivers") as made:
        made.declare("readings", READINGS)
        yield made


@pytest.fixture
def tidemill(drivers: SmallProject, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(drivers.folder, capsys.readouterr)


@pytest.fixture
def digest(tidemill: CommandLine, drivers: SmallProject) -> str:
    """Return a plan of four chunks, of which a driver that was stopped has done two."""
    digest = str(tidemill.json("backfill", "plan", "readings", *RANGE, "--chunk", "6h")["digest"])
    plane = drivers.plane()
    plan = load_plan(plane.store, plane.layout, "readings", digest)
    ProgressFile(plane.store, plane.layout, plan, "r").change(chunks=4, done={0: DONE, 1: DONE})
    return digest


def test_a_terminal_shows_the_chunks_and_where_the_log_is(
    tidemill: CommandLine, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = StringIO()
    screen = Console(file=sent, force_terminal=True, width=120, color_system=None, _environ={})
    monkeypatch.setattr("tidemill.cli.progress_bar.error_console", lambda: screen)
    assert tidemill("backfill", "apply", "readings", "--plan", digest) == 0, tidemill.err
    bar = sent.getvalue().rpartition("\x1b[2K")[2]
    assert bar.startswith(f"readings {'━' * 10:<20}  50% 2 of 4 chunks, 10 rows, 2 min left 0:00:")
    log = Path(tidemill.err.partition(" log ")[2].partition(";")[0])
    assert "fake driver backfill-" in log.read_text()
    assert "fake driver" not in sent.getvalue() + tidemill.err
    assert tidemill.out.splitlines() == [
        "bronze/readings: 3 rows in the table, 3 rows written by this run, version 0",
        "0 quarantined, 0 late, 0 without event time, 0 dropped",
        "finished",
    ]


def test_a_pipe_has_a_line_of_the_chunks(tidemill: CommandLine, digest: str) -> None:
    assert tidemill("backfill", "apply", "readings", "--plan", digest) == 0, tidemill.err
    started, told = tidemill.err.splitlines()
    assert "CTRL-C drains it" in started
    assert told == "readings: 2 of 4 chunks, 10 rows, 2 min left"


def test_the_log_is_shown_in_the_place_of_the_chunks_if_asked_for(tidemill: CommandLine, digest: str) -> None:
    assert tidemill("backfill", "apply", "readings", "--plan", digest, "--log") == 0, tidemill.err
    assert "fake driver backfill-" in tidemill.err
    assert "of 4 chunks" not in tidemill.err


def test_a_store_that_does_not_answer_ends_no_watch(
    drivers: SmallProject, digest: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plane = drivers.plane()
    plan = load_plan(plane.store, plane.layout, "readings", digest)
    progress = Progress(begun_at=DONE.at, chunks=4, done={0: DONE})
    answers: list[Progress | None] = [
        progress,
        None,
        progress.model_copy(update={"done": {0: DONE, 1: DONE}}),
    ]

    def read(*_: object) -> Progress:
        answer = answers.pop(0)
        if answer is None:
            raise OSError("the store is away")
        return answer

    monkeypatch.setattr("tidemill.backfill.progress.read_progress", read)
    monkeypatch.setattr(backfill_bar, "LOOK_SECONDS", 0)
    driver = StartedDriver("readings", "backfill", "r", "", DONE.at, DONE.at, "log", "pid 1", alive=True)
    with chunks_shown(plane, plan)(driver) as look:
        look()
        look()
    assert answers == []
    assert capsys.readouterr().err.splitlines() == [
        "readings: 1 of 4 chunks, 5 rows, 3 min left",
        "readings: 2 of 4 chunks, 10 rows, 2 min left",
    ]
