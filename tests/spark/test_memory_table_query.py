"""A table in a driver's memory, read from the command line while the driver runs."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.driver_process import START_TIMEOUT_SECONDS
from tests.support.eventually import eventually
from tests.support.lake import Lake

COUNTS = "SELECT device, count(*) AS readings, max(at) AS newest FROM landed GROUP BY device"


def test_a_table_in_memory_is_read_through_the_port_of_its_driver(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    (lake.folder / "spark_apps/transforms/counts.sql").write_text(COUNTS)
    rows = [{"device": f"d{number % 2}", "at": f"2026-01-01T00:0{number}:00Z"} for number in range(5)]
    lake.land_rows("landing/a.json", rows)
    source = {"path": "landing", "format": "json", "schema": "device string, at timestamp"}
    lake.pipeline(
        "counts",
        sources={"landed": {"files": source}},
        transform="counts.sql",
        sinks=[{"memory": {"name": "counts", "mode": "complete"}}],
        run={"mode": "stream", "trigger": "1 second"},
    )
    tidemill = CommandLine(lake.folder, capsys.readouterr)
    sql = "SELECT device, readings, newest FROM memory.counts ORDER BY device"
    assert tidemill("query", sql) == 2
    assert tidemill.err.startswith("TIDE-QUERY-009")
    assert "start counts; to keep the rows" in tidemill.err

    def has_rows() -> bool:
        return tidemill("query", sql) == 0 and "2 rows" in tidemill.out

    assert tidemill("start", "counts") == 0, tidemill.err + tidemill.out
    try:
        eventually(has_rows, "the rows are in memory", START_TIMEOUT_SECONDS)
        assert tidemill.json("query", sql) == [
            {"device": "d0", "readings": 3, "newest": "2026-01-01T00:04:00+00:00"},
            {"device": "d1", "readings": 2, "newest": "2026-01-01T00:03:00+00:00"},
        ]
        assert {"namespace": "memory", "tableName": "counts"} in tidemill.json("query", "SHOW TABLES")
        assert tidemill("watch", "counts", "--once") == 0, tidemill.err
        assert "memory:counts version 0: mean readings by newest" in tidemill.out
        assert "newest rows by newest" in tidemill.out
    finally:
        assert tidemill("stop", "counts") == 0
    assert tidemill("query", sql) == 2
    assert tidemill.err.startswith("TIDE-QUERY-009")
