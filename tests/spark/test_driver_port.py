"""A real driver's HTTP port and Spark's own UI, from its start to its end."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver_process import START_TIMEOUT_SECONDS, drivers_of
from tests.support.eventually import eventually
from tests.support.lake import Lake, LakePipeline
from tests.support.lineage_service import LineageService, lineage_service
from tests.support.openlineage_rules import check_event
from tests.support.scraped import scraped
from tidemill.checkpoint.query_report import read_query_report
from tidemill.dev.ports import free_ports
from tidemill.lineage.replay import events_since

# The first batch runs until the test lets it end. A secret is where none belongs.
CANARY = "c4n4ry"
SECRET = "s3cr3t"
API_KEY = "k3y-of-lineage"
SECRETS = {"TIDEMILL_SECRET_BROKER": SECRET, "TIDEMILL_SECRET_LINEAGE": API_KEY}
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

    link = F.concat(F.lit("https://store/?sig={canary}&id="), F.col("value"))
    return ticks.select(held("value").alias("value"), link.alias("link"))
"""


def ask(address: str, path: str, method: str = "GET") -> tuple[int, str]:
    """Return code and text of the answer; code 0 without an answer."""
    try:
        request = urllib.request.Request(f"{address}{path}", method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.soak
def test_a_driver_is_alive_at_once_ready_after_its_first_batch_and_tells_of_its_query(
    lake: Lake, tmp_path: Path
) -> None:
    begun, released = tmp_path / "begun", tmp_path / "released"
    code = HELD.format(begun=str(begun), released=str(released), canary=CANARY)
    ticks = lake.pipeline(
        "ticks",
        source={"rate_per_batch": {"rows_per_batch": 10}},
        transform=lake.transform("held", code),
        sinks=[{"delta": {"table": "bronze/ticks"}}],
        run={"trigger": "1 second", "spark_ui": True},
    )
    (port,) = free_ports(1)
    here = f"http://127.0.0.1:{port}"

    def told(path: str) -> Any:
        return json.loads(ask(here, path)[1])

    with lineage_of(lake) as service, drivers_of(lake.folder, SECRETS) as drivers:
        driver = drivers.start("ticks", "stream", "--http-port", str(port))
        assert eventually(lambda: ask(here, "/healthz")[0], "the port answers", START_TIMEOUT_SECONDS) == 200
        assert ask(here, "/readyz")[0] == 503
        eventually(begun.exists, "the first batch is at work", START_TIMEOUT_SECONDS)
        assert [ask(here, path)[0] for path in ("/healthz", "/readyz")] == [200, 503]
        first = told("/queries")[0]
        ui = first["spark_ui"]
        try_to_kill_the_batch(ui)
        released.touch()
        eventually(lambda: ask(here, "/readyz")[0] == 200, "the driver is ready", START_TIMEOUT_SECONDS)
        assert len(lake.rows("bronze/ticks")) >= 10
        assert ask(here, "/healthz")[0] == 200
        status = told("/status")
        assert (status["pipeline"], status["run_id"]) == ("ticks", driver.run_id)

        eventually(lambda: "Plan" in ask(here, "/explain")[1], "the plan is there", START_TIMEOUT_SECONDS)
        (query,) = told("/queries")
        see_the_query(query, driver.run_id, ticks.query_id)
        assert query["query_run_id"] == first["query_run_id"]
        assert told("/progress")[0]["batchId"] == 0
        see_what_spark_measured(scraped(ask(here, "/metrics")[1]))
        see_sparks_ui(ui, query["query_run_id"])
        # The transform's own words are shown, the secret in them is not.
        plan = ask(here, "/explain")[1]
        assert "https://store/?sig=***" in plan
        assert CANARY not in plan + ask(here, "/queries")[1] + ask(here, "/progress")[1]
        # An open port does not keep the process from ending.
        assert driver.terminate() == 0
        see_lineage(service, ticks, driver.output)
    assert ask(here, "/healthz")[0] == 0
    stored = read_query_report(lake.store, drivers.environment.layout, "ticks")
    assert stored is not None
    assert (stored.active, stored.query_run_id) == (False, query["query_run_id"])
    assert CANARY not in stored.model_dump_json()
    # This includes the last batch, whose end Spark reports last.
    assert stored.sinks[0].total_rows == len(lake.rows("bronze/ticks"))
    assert (stored.last_progress or {})["batchId"] == stored.sinks[0].batch_id


@contextmanager
def lineage_of(lake: Lake) -> Iterator[LineageService]:
    with lineage_service() as service:
        lake.configure(lineage={"url": service.url, "api_key": "lineage"})
        yield service


def see_lineage(service: LineageService, ticks: LakePipeline, output: str) -> None:
    """Check that the service received the run from start to end, that storage has the same, and no secret."""
    assert (service.types[0], service.types[-1]) == ("START", "COMPLETE")
    (first, *_) = (event for event in service.events if check_event(event)["eventType"] == "RUNNING")
    (table,) = first["outputs"]
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 10
    assert [field["name"] for field in table["facets"]["schema"]["fields"]] == ["value", "link"]
    again = events_since(ticks.lake.store, ticks.resolved, datetime(2024, 1, 1, tzinfo=UTC))
    assert [event for event in again if event in service.events] == service.events
    assert set(service.keys) == {f"Bearer {API_KEY}"}
    assert not any(secret in str(service.events) for secret in (CANARY, SECRET, API_KEY))
    assert API_KEY not in output


def see_what_spark_measured(values: dict[tuple[str, ...], float]) -> None:
    """Check the metrics of the newest batch, by its progress and the declaration."""
    ticks = ("ticks", "stream")
    assert values["tidemill_trigger_interval_seconds", *ticks] == 1
    assert values["tidemill_progress_within_seconds", *ticks] == 600
    assert values["tidemill_processed_rows_per_second", *ticks] > 0
    assert values["tidemill_rows_total", *ticks] >= 10
    assert values["tidemill_batches_total", *ticks] >= 1
    whole = values["tidemill_batch_duration_seconds", *ticks]
    parts = {key[3] for key in values if key[0] == "tidemill_batch_part_duration_seconds"}
    assert {"addBatch", "walCommit", "commitOffsets"} <= parts
    assert 0 < values["tidemill_sink_duration_seconds", *ticks, "bronze/ticks"] <= whole
    assert not [key for key in values if key[0] == "tidemill_metrics_failed"]


def see_the_query(query: dict[str, Any], run_id: str, query_id: str | None) -> None:
    assert (query["name"], query["run_id"], query["id"], query["active"]) == ("ticks", run_id, query_id, True)
    (source,), (sink,) = query["sources"], query["sinks"]
    assert (source["name"], source["rows"]) == ("source", 10)
    assert source["input_rows_per_second"] >= 0
    assert source["processed_rows_per_second"] > 0
    assert (sink["name"], sink["rows"], sink["committed"]) == ("bronze/ticks", 10, True)
    assert sink["total_rows"] == 10 * (sink["batch_id"] + 1)
    assert query["message"]


def try_to_kill_the_batch(ui: str) -> None:
    """Try to kill the batch while it runs. If that worked, it and its query would fail."""
    jobs = ask(ui, "/jobs/")[1]
    assert "Active Jobs" in jobs
    assert "/kill/" not in jobs
    for number in range(5):
        for method in ("GET", "POST"):
            ask(ui, f"/jobs/job/kill/?id={number}", method)
            ask(ui, f"/stages/stage/kill/?id={number}", method)


def see_sparks_ui(address: str, query_run_id: str) -> None:
    """Check that Spark's UI shows the stream, only on this machine's loopback interface."""
    code, page = ask(address, "/StreamingQuery/")
    assert (code, query_run_id in page) == (200, True)
    # A server on all interfaces would also answer here.
    assert ask(address.replace("127.0.0.1", "127.0.0.2"), "/jobs/")[0] == 0
    settings = ask(address, "/environment/")[1]
    assert "spark.redaction.regex" in settings
    assert SECRET not in settings
