"""Progress of long work: a bar in a terminal, a few lines in a pipe, and nothing with JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from tests.support.command_line import CommandLine
from tests.support.conf_project import PIPELINE, ConfProject
from tests.support.pipelines_on_disk import PipelineOnDisk
from tests.support.stores import StorePlace
from tidemill.backfill.progress import ChunkDone, Progress
from tidemill.cli import progress_bar as module
from tidemill.cli.advance_bars import AdvanceBars
from tidemill.cli.backfill_bar import stand_of
from tidemill.cli.progress_bar import Stand, is_due, progress_bar, words
from tidemill.storage.advance import Advance

BEGUN = datetime(2026, 11, 23, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WITHOUT_PAYLOAD = PIPELINE.replace("payload:\n  json: {schema: order.json}\n", "").replace(
    "event_time: {column: at, watermark: 10 minutes}\n", ""
)


class FullError(Exception):
    """The disk is."""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """Make standard error a terminal, and return its content."""
    return screen_of(monkeypatch, is_terminal=True)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    return screen_of(monkeypatch, is_terminal=False)


def screen_of(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> StringIO:
    sent = StringIO()
    screen = Console(file=sent, force_terminal=is_terminal, width=120, color_system=None, _environ={})
    monkeypatch.setattr(module, "error_console", lambda: screen)
    return sent


def last_bar(terminal: StringIO) -> str:
    """Return the visible bar, which is the last one; each bar overwrites the one before."""
    return terminal.getvalue().rpartition("\x1b[2K")[2].splitlines()[0]


def empty(sent: StringIO) -> None:
    sent.seek(0)
    sent.truncate()


@pytest.fixture
def orders(project: ConfProject) -> PipelineOnDisk:
    """Return the project's pipeline after three batches."""
    project.write("conf/pipelines/orders.yaml", WITHOUT_PAYLOAD)
    return PipelineOnDisk(StorePlace("local", project.folder, {"root": ".data"})).ran(3)


@pytest.mark.parametrize(
    ("stand", "seconds", "told"),
    [
        (Stand(), 9, "0 of ? files"),
        (Stand(0, 40), 9, "0 of 40 files"),
        (Stand(10, 40), 60, "10 of 40 files, 3 min left"),
        (Stand(10, 40, left=MINUTE), 1000, "10 of 40 files, 60 s left"),
        (Stand(10, 40, size=2_000_000), 0.5, "10 of 40 files, 2.0 MB"),
        (Stand(40, 40, size=2_000_000), 4, "40 of 40 files, 2.0 MB, 500.0 kB/s"),
        (Stand(1, 2, "b: deleted", "3 of 9"), 0, "1 of 2 files, b: deleted, 3 of 9"),
    ],
)
def test_a_stand_is_told_with_rate_and_time_left(stand: Stand, seconds: float, told: str) -> None:
    assert words("files", stand, seconds) == told


@pytest.mark.parametrize(
    ("before", "now", "seconds", "expected"),
    [
        (Stand(0, 20), Stand(1, 20), 59, False),
        (Stand(0, 20), Stand(2, 20), 9, False),
        (Stand(0, 20), Stand(2, 20), 10, True),
        (Stand(0, 20), Stand(0, 20), 60, True),
        (Stand(0, 20, "a"), Stand(0, 20, "b"), 10, True),
        (Stand(), Stand(0, 20), 10, True),
    ],
)
def test_a_pipe_gets_a_line_for_each_tenth_and_step_but_neither_many_nor_none(
    before: Stand, now: Stand, seconds: float, expected: bool
) -> None:
    assert is_due(before, now, seconds) is expected


def test_a_terminal_has_a_bar_that_stays_where_the_work_ended(terminal: StringIO) -> None:
    with progress_bar("[b]orders", "files") as show:
        for done in range(4):
            show(Stand(done, 3))
    assert last_bar(terminal).startswith("[b]orders ━━━━━━━━━━━━━━━━━━━━ 100% 3 of 3 files 0:00:0")
    assert "\x1b[?25h" in terminal.getvalue(), "the cursor is shown again"


def test_a_pipe_has_the_beginning_and_the_end_and_no_control_signs(pipe: StringIO) -> None:
    with progress_bar("orders", "files") as show:
        for done in range(101):
            show(Stand(done, 100))
    assert pipe.getvalue() == "orders: 0 of 100 files\norders: 100 of 100 files\n"


def test_a_bar_stays_where_work_has_failed(terminal: StringIO) -> None:
    def fail() -> None:
        with progress_bar("orders", "files") as show:
            show(Stand(0, 3))
            show(Stand(1, 3))
            raise FullError

    with pytest.raises(FullError):
        fail()
    assert "\x1b[?25h" in terminal.getvalue()
    assert " 33% 1 of 3 files" in last_bar(terminal)


def test_a_pipe_is_not_told_an_end_that_was_not_reached(pipe: StringIO) -> None:
    def fail() -> None:
        with AdvanceBars() as bars:
            bars.tell(Advance("checkpoint", 0, 3))
            bars.tell(Advance("checkpoint", 1, 3))
            raise FullError

    with pytest.raises(FullError):
        fail()
    assert pipe.getvalue() == "checkpoint: 0 of 3 files\n"


def test_quiet_work_shows_nothing(terminal: StringIO) -> None:
    with progress_bar("orders", "files", quiet=True) as show:
        show(Stand(1, 2))
    assert terminal.getvalue() == ""


def test_ci_that_asks_for_colours_gets_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("orders", "files") as show:
        show(Stand(0, 1))
        show(Stand(1, 1))
    printed = capsys.readouterr()
    assert printed.err == "orders: 0 of 1 files\norders: 1 of 1 files\n"
    assert printed.out == ""


def test_a_backfill_that_another_run_has_finished_is_at_its_beginning_again() -> None:
    done = ChunkDone(rows={"a/b": 5, "a/c": 1}, versions={}, records=None, seconds=60, run_id="r1", at=BEGUN)
    progress = Progress(begun_at=BEGUN, chunks=3, done={0: done, 1: done})
    assert stand_of(progress, "r2") == Stand(2, 3, note="12 rows", left=MINUTE)
    finished = progress.model_copy(update={"chunks": 2, "finished_by": "r1", "finished_at": BEGUN})
    assert stand_of(finished, "r1").done == 2
    assert stand_of(finished, "r2") == stand_of(None, "r2") == Stand()


def test_each_copy_has_a_bar_of_its_own(
    terminal: StringIO, tidemill: CommandLine, orders: PipelineOnDisk, project: ConfProject
) -> None:
    assert tidemill("checkpoint", "backup", "orders", "--apply", "--reason", "x") == 0, tidemill.err
    backup = tidemill.out.split()[1].rstrip(":")
    files = len(orders.store.list_files(f"{orders.state}/backups/{backup}/checkpoint"))
    assert f"checkpoint ━━━━━━━━━━━━━━━━━━━━ 100% {files} of {files} files" in last_bar(terminal)
    empty(terminal)
    assert tidemill("checkpoint", "restore", "orders", backup, "--apply", "--reason", "x") == 0, tidemill.err
    assert f" {files} of {files} files" in last_bar(terminal)
    # Steps are reported as before.
    assert "write checkpoint: done\n" in tidemill.err
    project.write("conf/pipelines/shadow.yaml", WITHOUT_PAYLOAD.replace("bronze/orders", "bronze/shadow"))
    empty(terminal)
    assert tidemill("checkpoint", "fork", "orders", "shadow", "--apply", "--reason", "x") == 0, tidemill.err
    assert "checkpoint ━━━━━━━━━━━━━━━━━━━━ 100%" in terminal.getvalue()
    assert last_bar(terminal).startswith("table bronze/shadow ━━━━━━━━━━━━━━━━━━━━ 100% 3 of 3 files, ")


def test_in_a_pipe_a_copy_has_two_lines_and_beside_json_none(
    pipe: StringIO, tidemill: CommandLine, orders: PipelineOnDisk
) -> None:
    rewind = ("checkpoint", "rewind", "orders", "--to", "1", "--apply", "--reason", "x")
    assert tidemill(*rewind) == 0, tidemill.err
    first, last = pipe.getvalue().splitlines()
    copied = last.split()[1]
    assert first == f"checkpoint: 0 of {copied} files"
    assert last.startswith(f"checkpoint: {copied} of {copied} files, ")
    empty(pipe)
    tidemill.json("checkpoint", "backup", "orders", "--apply", "--reason", "x")
    assert pipe.getvalue() == ""


def test_json_is_not_mixed_with_a_bar(
    terminal: StringIO, tidemill: CommandLine, orders: PipelineOnDisk
) -> None:
    assert tidemill("checkpoint", "rewind", "orders", "--to", "1", "--apply", "--reason", "x", "--json") == 0
    assert json.loads(tidemill.out)["applied"] is True
    assert terminal.getvalue() == ""
