"""Log lines: one JSON document each, and never the reason for a stop."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tidemill.engine import driver
from tidemill.engine.log_lines import log_json_lines, quote_no_record, run_in_log


@pytest.fixture(autouse=True)
def _configured_here_only() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def log_to(path: Path, *values: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        log_json_lines(descriptor)
        for value in values:
            structlog.get_logger().warning("batch", value=value)
    finally:
        os.close(descriptor)


def test_each_line_is_a_document(tmp_path: Path) -> None:
    log_to(tmp_path / "log", 1, "two\nlines", "ü\ud800")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["value"] for line in lines] == [1, "two\nlines", "ü\ud800"]
    assert {(line["event"], line["level"]) for line in lines} == {("batch", "warning")}


def test_a_full_disk_loses_lines_and_stops_nothing() -> None:
    log_to(Path("/dev/full"), 1, 2)


def test_a_reader_that_went_away_stops_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        log_json_lines(writer)
        structlog.get_logger().warning("batch")
    finally:
        os.close(writer)


def test_loggers_that_quote_records_are_silent() -> None:
    quote_no_record()
    for name in ("py4j.clientserver", "DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR)


def test_each_line_says_of_which_run_it_is(tmp_path: Path) -> None:
    log_file = tmp_path / "log"
    with log_file.open("wb") as file:
        log_json_lines(file.fileno(), run={"pipeline": "orders", "run_id": "scheduled-1"})
        structlog.get_logger().info("batch", batch_id=3)
        structlog.get_logger().info("other", pipeline="returns")
    first, second = [json.loads(line) for line in log_file.read_text().splitlines()]
    assert (first["pipeline"], first["run_id"], first["batch_id"]) == ("orders", "scheduled-1", 3)
    assert second["pipeline"] == "returns"


def test_a_driver_says_which_dag_run_has_started_it_if_its_run_id_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_in_log("orders", "stream-1", {}) == {"pipeline": "orders", "run_id": "stream-1"}
    monkeypatch.setenv("TIDEMILL_DAG_RUN", "tidemill_streams manual-1")
    # Check the first line of the exception, which is here also the last.
    where = ("--project", str(tmp_path), "--env", "none", "--pipeline", "orders")
    assert driver.main([*where, "--mode", "stream", "--run-id", "stream-1"]) != 0
    line = json.loads(capfd.readouterr().err)
    told = (line["pipeline"], line["run_id"], line["dag_run"])
    assert told == ("orders", "stream-1", "tidemill_streams manual-1")
