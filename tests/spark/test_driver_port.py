"""A real driver's HTTP port, from its start to its end."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from tests.support.driver_process import drivers_of
from tests.support.eventually import eventually
from tests.support.lake import Lake
from tidemill.dev.ports import free_ports


def ask(port: int, path: str) -> tuple[int, str]:
    """Code and text; code 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_a_driver_is_alive_at_once_and_ready_after_its_first_batch(lake: Lake) -> None:
    lake.pipeline(
        "ticks",
        source={"rate_per_batch": {"rows_per_batch": 10}},
        sinks=[{"delta": {"table": "bronze/ticks"}}],
        run={"trigger": "1 second"},
    )
    (port,) = free_ports(1)
    with drivers_of(lake.folder) as drivers:
        driver = drivers.start("ticks", "stream", "--http-port", str(port))
        assert eventually(lambda: ask(port, "/healthz")[0], "the port answers", 60) == 200
        assert ask(port, "/readyz")[0] == 503 or drivers.committed("ticks") >= 0
        drivers.wait_for_batch("ticks", driver)
        assert [ask(port, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        told = json.loads(ask(port, "/status")[1])
        assert (told["pipeline"], told["run_id"]) == ("ticks", driver.run_id)
        assert 'tidemill_rows_total{pipeline="ticks",mode="stream"}' in ask(port, "/metrics")[1]
        # The port keeps nobody from ending.
        assert driver.terminate() == 0
    assert ask(port, "/healthz")[0] == 0
