"""A real driver's HTTP port, from its start to its end."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.driver_process import START_TIMEOUT_SECONDS, drivers_of
from tests.support.eventually import eventually
from tests.support.lake import Lake
from tidemill.dev.ports import free_ports

# The first batch is at work until the test lets it end.
HELD = """
import time
from pathlib import Path

from pyspark.sql import functions as F

def transform(ticks):
    @F.udf("long")
    def held(value):
        Path({begun!r}).touch()
        while not Path({released!r}).exists():
            time.sleep(0.05)
        return value

    return ticks.select(held("value").alias("value"))
"""


def ask(port: int, path: str) -> tuple[int, str]:
    """Code and text; code 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_a_driver_is_alive_at_once_and_ready_after_its_first_batch(lake: Lake, tmp_path: Path) -> None:
    begun, released = tmp_path / "begun", tmp_path / "released"
    lake.pipeline(
        "ticks",
        source={"rate_per_batch": {"rows_per_batch": 10}},
        transform=lake.transform("held", HELD.format(begun=str(begun), released=str(released))),
        sinks=[{"delta": {"table": "bronze/ticks"}}],
        run={"trigger": "1 second"},
    )
    (port,) = free_ports(1)
    with drivers_of(lake.folder) as drivers:
        driver = drivers.start("ticks", "stream", "--http-port", str(port))
        assert eventually(lambda: ask(port, "/healthz")[0], "the port answers", START_TIMEOUT_SECONDS) == 200
        assert ask(port, "/readyz")[0] == 503
        eventually(begun.exists, "the first batch is at work", START_TIMEOUT_SECONDS)
        assert [ask(port, path)[0] for path in ("/healthz", "/readyz")] == [200, 503]
        released.touch()
        eventually(lambda: ask(port, "/readyz")[0] == 200, "the driver is ready", START_TIMEOUT_SECONDS)
        assert len(lake.rows("bronze/ticks")) >= 10
        assert ask(port, "/healthz")[0] == 200
        told = json.loads(ask(port, "/status")[1])
        assert (told["pipeline"], told["run_id"]) == ("ticks", driver.run_id)
        assert 'tidemill_rows_total{pipeline="ticks",mode="stream"}' in ask(port, "/metrics")[1]
        # The port keeps nobody from ending.
        assert driver.terminate() == 0
    assert ask(port, "/healthz")[0] == 0
