"""`tidemill query` and `watch` of a table in memory, over the port of a driver that is played here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.command_line import CommandLine
from tests.support.followed_fixes import typed
from tests.support.small_project import SmallProject, small_project
from tidemill.checkpoint.query_report import read_query_report, write_query_report
from tidemill.engine.http_port import Answer, serve
from tidemill.names import NEWEST_BATCH

COUNTS = """
description: Rows made from the clock.
owner: tests
source: {rate: {}}
sinks:
  - memory: {name: counts}
"""
ROWS = pa.table({"at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")), "n": [3]})


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    with small_project(tmp_path / "drivers") as made:
        monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_driver:fake_driver_command")
        monkeypatch.setenv("PYTHONPATH", made.variables["PYTHONPATH"])
        yield made


@pytest.fixture
def tidemill(drivers: SmallProject, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(drivers.folder, capsys.readouterr)


def stream(batch: int) -> bytes:
    rows = ROWS.replace_schema_metadata({NEWEST_BATCH: str(batch)})
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(buffer.getvalue().to_pybytes())


def started(tidemill: CommandLine, drivers: SmallProject, name: str) -> None:
    """Declare a pipeline and start its driver."""
    drivers.declare(name, COUNTS)
    assert tidemill("start", name) == 0, tidemill.out


def tell_port(drivers: SmallProject, name: str, address: str) -> None:
    plane = drivers.plane()
    report = read_query_report(plane.store, plane.layout, name)
    assert report is not None
    with_port = report.model_copy(update={"http": address, "updated_at": datetime.now(UTC)})
    write_query_report(plane.store, plane.layout, with_port)


def test_a_table_in_memory_is_read_where_its_driver_runs(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.declare("one", COUNTS)
    sql = "SELECT n FROM memory.counts"
    assert tidemill("query", sql) == 2
    assert tidemill.err.startswith("TIDE-QUERY-009")
    assert tidemill(*typed(tidemill.err, "start", {})) == 0, tidemill.out
    port = serve(
        ("127.0.0.1", 0), lambda path: Answer(200 if path == "/memory/counts" else 404, "", stream(7))
    )
    assert port is not None
    tell_port(drivers, "one", port.url)
    assert tidemill.json("query", sql) == [{"n": 3}]
    assert tidemill("query", sql) == 0
    assert tidemill.out.splitlines()[-1] == "1 rows of memory.counts v7"
    assert tidemill.json("query", "show tables") == [{"namespace": "memory", "tableName": "counts"}]
    assert tidemill("watch", "one", "--once") == 0, tidemill.err
    assert "memory:counts version 7: mean n by at" in tidemill.out
    # A port that is not on this machine is never asked.
    tell_port(drivers, "one", "http://192.0.2.1:80")
    assert tidemill("query", sql) == 2
    tell_port(drivers, "one", port.url)
    started(tidemill, drivers, "two")
    tell_port(drivers, "two", port.url)
    assert tidemill("query", sql) == 2
    assert tidemill.err.startswith("TIDE-QUERY-010")
    assert "pipelines=one, two" in tidemill.err
    port.shutdown()
    port.server_close()
    assert tidemill("watch", "one", "--once") == 0, tidemill.err
    assert "memory:counts: there is no such table yet" in tidemill.out


def test_an_unknown_table_in_memory_is_refused_with_the_near_one(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.declare("one", COUNTS)
    assert tidemill("query", "SELECT * FROM memory.count") == 2
    assert "did you mean memory.counts?" in tidemill.err
