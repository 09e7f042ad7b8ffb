"""`run --with-upstream` and `run --all`, with real processes that run no Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.fake_driver import ROOT
from tests.support.small_project import INCREMENTAL, STREAM, SmallProject, small_project

READER = """
description: Rows of the table before.
owner: tests
source: {delta: {table: bronze/raw}}
sinks:
  - delta: {table: silver/%(name)s}
run: {mode: incremental}
"""

THREE_ROWS = (
    "3 rows in the table, 3 rows written by this run, version 0; "
    "0 quarantined, 0 late, 0 without event time, 0 dropped"
)


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    """Yield a project in which `raw` feeds `clean`; `other` and the stream `live` are independent."""
    monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_driver:fake_driver_command")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    with small_project(tmp_path / "drivers") as made:
        for name in ("raw", "other"):
            made.declare(name, INCREMENTAL)
        made.declare("clean", READER)
        made.declare("live", STREAM)
        yield made


@pytest.fixture
def tidemill(drivers: SmallProject, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(drivers.folder, capsys.readouterr)


def test_a_pipeline_runs_after_those_that_feed_it(tidemill: CommandLine, drivers: SmallProject) -> None:
    assert tidemill("run", "clean", "--with-upstream") == 0, tidemill.err
    assert tidemill.out.splitlines() == [
        f"raw: finished: bronze/raw: {THREE_ROWS}",
        f"clean: finished: silver/clean: {THREE_ROWS}",
        "2 finished",
    ]


def test_a_failure_stops_what_depends_on_it_and_nothing_else_and_ends_with_1(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.behave("raw", "exit 65")
    assert tidemill("run", "--all") == 1
    live, other, raw, clean, sum_up = tidemill.out.splitlines()
    assert live == "live: left alone: a stream, which does not run; tidemill start live"
    assert other == f"other: finished: bronze/other: {THREE_ROWS}"
    assert raw.startswith("raw: failed: exit 65, TIDE-TEST-001 As the test wants.; log ")
    assert clean == "clean: not run: it depends on raw"
    assert sum_up == "1 finished, 1 failed, 1 not run, 1 left alone"
    assert drivers.plane().runtime.last_start("clean") is None
    assert drivers.plane().runtime.last_start("live") is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--with-upstream",), "name one pipeline"),
        (("clean", "--all"), "name one pipeline"),
        (("clean", "--with-upstream", "--mode", "incremental"), "as their files say"),
        (("live", "--with-upstream"), "live is a stream"),
        ((), "name a pipeline"),
    ],
)
def test_a_chain_is_one_pipeline_with_what_feeds_it_or_all(
    tidemill: CommandLine, words: tuple[str, ...], said: str
) -> None:
    assert tidemill("run", *words) == 2
    assert said in " ".join(tidemill.err.replace("│", " ").split())
