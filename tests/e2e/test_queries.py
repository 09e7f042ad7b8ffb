"""The query of a running stream, as an operator asks for it: command line, driver's port, Spark's own UI."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.cluster import Cluster, Document, uid_of
from tests.support.platform import BRONZE, TABLES, WINDOWS, Platform
from tests.support.port_forward import fetched, port_forward
from tests.support.release import NAME
from tidemill.names import kubernetes_name

# The access command for something in a pod, as `queries show` prints it.
COMMAND = re.compile(
    r"kubectl -n (?P<namespace>\S+) port-forward (?P<target>\S+) (?P<port>\d+), then http://127\.0\.0\.1"
)

# One that has read all that there is waits for more.
AT_WORK = ("running", "waiting")


def told(url: str, path: str) -> Any:
    code, text = fetched(f"{url}{path}")
    assert code == 200, f"{path}: {text}"
    return json.loads(text)


@pytest.mark.core
def test_the_query_of_a_running_stream_is_told_by_command_line_port_and_sparks_own_ui(
    platform: Platform,
) -> None:
    driver = platform.until_healthy(WINDOWS)
    platform.feed(500)
    platform.assert_exact()
    listed = {query["pipeline"]: query for query in platform.tidemill("queries", "--json")}
    assert set(listed) == {BRONZE, WINDOWS}
    assert all(found["state"] in AT_WORK and found["active"] for found in listed.values())
    assert [found["exception"] for found in listed.values()] == [None, None]
    query = listed[WINDOWS]["query"]
    # An earlier test may have killed the container.
    process, _, restarts = listed[WINDOWS]["driver"]["process"].partition(", ")
    assert (process, bool(restarts)) == (f"pod {kubernetes_name(WINDOWS)}-0", restarts_of(driver) > 0)
    assert [source["description"] for source in query["sources"]] == ["KafkaV2[Subscribe[iot_events]]"]
    sinks = {sink["name"]: sink for sink in query["sinks"]}
    assert set(sinks) == {TABLES[WINDOWS], "silver/iot_alerts", "kafka:iot_alerts"}
    see_one(platform, query)
    with opened(query["http"]) as url:
        see_the_port(url, query, platform.committed(WINDOWS))
    with opened(query["spark_ui"]) as url:
        see_sparks_ui(url, query["query_run_id"], secret_of(platform))
    # The same driver continues after all requests.
    assert uid_of(platform.until_healthy(WINDOWS)) == uid_of(driver)
    platform.feed(100)
    platform.assert_exact()


def restarts_of(pod: Document) -> int:
    """Return the number of container restarts."""
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def opened(told_how: str) -> Any:
    """Forward the port as the printed command does; the local port may differ."""
    found = COMMAND.match(told_how)
    assert found is not None, told_how
    return port_forward(Cluster(found["namespace"]), found["target"], int(found["port"]))


def see_one(platform: Platform, query: dict[str, Any]) -> None:
    """Check the query that `queries show` finds by the first digits of its id."""
    shown = platform.tidemill("queries", "show", query["id"][:8])
    for part in (query["id"], query["query_run_id"], query["http"], query["spark_ui"]):
        assert part in shown
    assert re.search(rf"^ *{TABLES[WINDOWS]} +\d+ +yes", shown, re.MULTILINE), shown
    assert '"numInputRows"' in shown
    assert "== Physical Plan ==" in shown


def see_the_port(url: str, query: dict[str, Any], committed: int) -> None:
    status = told(url, "/status")
    assert (status["pipeline"], status["run_id"]) == (WINDOWS, query["run_id"])
    assert status["state"] in AT_WORK
    assert status["batch_id"] >= committed
    (own,) = told(url, "/queries")
    assert (own["id"], own["query_run_id"], own["active"]) == (query["id"], query["query_run_id"], True)
    assert told(url, "/progress")[-1]["batchId"] >= committed
    assert "== Physical Plan ==" in fetched(f"{url}/explain")[1]
    assert [fetched(f"{url}{path}")[0] for path in ("/healthz", "/readyz")] == [200, 200]
    # The port is read-only.
    assert fetched(f"{url}/status", method="POST")[0] == 405


def see_sparks_ui(url: str, query_run_id: str, secret: str) -> None:
    assert query_run_id in fetched(f"{url}/StreamingQuery/")[1]
    executors = fetched(f"{url}/api/v1/applications")[1]
    application = json.loads(executors)[0]["id"]
    names = {each["id"] for each in told(url, f"/api/v1/applications/{application}/executors")}
    assert {"driver", "1"} <= names
    settings = fetched(f"{url}/environment/")[1]
    assert "spark.authenticate.secret.file" in settings
    assert secret not in settings
    jobs = fetched(f"{url}/jobs/")[1]
    assert "Completed Jobs" in jobs
    assert "/kill/" not in jobs


def secret_of(platform: Platform) -> str:
    """Return the secret with which driver and executors authenticate each other."""
    return platform.streams.secret(f"{NAME}-rpc")["secret"]
