"""The lines that a terminal shows of a driver's log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidemill.cli.driver_lines import DriverLines

OF_RUN = {"pipeline": "orders", "run_id": "r1", "level": "info", "timestamp": "2026-11-27T08:00:00Z"}

# First lines of Spark 4.2.
START_OF_SPARK = [
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "26/11/27 08:00:00 WARN Utils: Your hostname, h, resolves to a loopback address: 127.0.0.1",
    "26/11/27 08:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform",
    'Setting default log level to "WARN".',
]


def line(event: str, **fields: Any) -> str:
    return json.dumps({**OF_RUN, "event": event, **fields})


def shown(*lines: str) -> list[str]:
    terminal = DriverLines()
    return [text for each in lines if (text := terminal.shown(each)) is not None]


def test_a_batch_is_one_line() -> None:
    first = line("batch", batch_id=7, rows=12_345, milliseconds=1234, lag=0, late_rows=0)
    behind = line("batch", batch_id=8, rows=2, milliseconds=None, lag=1000, late_rows=3)
    assert shown(first, behind) == ["batch 7: 12,345 rows, 1.2 s", "batch 8: 2 rows, 1,000 behind, 3 late"]


def test_the_start_of_spark_and_its_traces_are_in_the_log_alone() -> None:
    trace = [
        "26/11/27 08:00:01 ERROR Executor: Exception in task 0.0",
        "org.apache.spark.SparkException",
        "\tat org.apache.spark.Task.run(Task.scala:1)",
        "",
        "Caused by: java.io.EOFException",
        "\t... 1 more",
    ]
    assert shown(*START_OF_SPARK, *trace, line("last_ending", result="clean")) == []


def test_what_a_transform_prints_and_what_python_says_at_its_start_is_shown() -> None:
    said = ["Traceback (most recent call last):", '  File "x.py", line 1', "ImportError: no tidemill"]
    assert shown(*START_OF_SPARK, "rows: 3", "", *said) == ["rows: 3", *said]


def test_a_reason_to_wait_is_told_once_until_a_batch_comes() -> None:
    away = (
        "TIDE-SRC-001  No Kafka broker answers.\n  bootstrap_servers=a:9092\n  To fix: start it\n  Runbook: x"
    )
    waits, batch = line("unavailable", reason=away), line("batch", batch_id=0, rows=1)
    text = "waiting: TIDE-SRC-001  No Kafka broker answers.; bootstrap_servers=a:9092; To fix: start it"
    assert shown(waits, waits, batch, waits) == [text, "batch 0: 1 rows", text]


def test_a_warning_is_one_line_and_the_failure_is_told_at_the_end() -> None:
    warning = line("file_not_readable", level="warning", file="a\x1b[2J.json")
    assert shown(warning, line("failed", level="error", id="TIDE-X-001")) == [
        "warning: file_not_readable file=a\N{REPLACEMENT CHARACTER}[2J.json"
    ]


@pytest.mark.parametrize("text", ["{", "{}", '{"event": 1}', "[1]"])
def test_a_line_that_only_looks_like_the_driver_s_is_shown(text: str) -> None:
    assert shown(text) == [text]


def test_a_chunk_of_a_backfill_is_one_line() -> None:
    assert shown(line("chunk", number=3, of=10, rows={"bronze/orders": 2})) == ["chunk 3 of 10"]
