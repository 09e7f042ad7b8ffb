"""A driver's log and events from the cluster: each line once, however often it is read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.api_server import LOG_BEGINS, ApiServerInMemory, container, crash_looping
from tests.support.cluster_project import ClusterProject
from tests.support.drivers_as_pods import POD, started, stream
from tidemill.control.driver_log import LINES_AT_ONCE, LogPosition
from tidemill.control.kubernetes.kubernetes_runtime import KubernetesRuntime
from tidemill.control.runtime import StartedDriver


@pytest.fixture
def runtime(cluster_project: ClusterProject, api: ApiServerInMemory) -> KubernetesRuntime:
    return cluster_project.runtime(api)


@pytest.fixture
def driver(runtime: KubernetesRuntime, api: ApiServerInMemory) -> StartedDriver:
    driver = started(runtime, stream())
    api.settle()
    return driver


class Reader:
    """Looks again and again, with the position as it waits in a database."""

    def __init__(self, runtime: KubernetesRuntime, driver: StartedDriver) -> None:
        self._runtime, self._driver = runtime, driver
        self._position: LogPosition | None = None

    def read(self) -> list[str]:
        news = self._runtime.read_log(self._driver, self._position)
        self._position = LogPosition.model_validate(news.position.model_dump(mode="json"))
        return news.lines


def test_each_line_is_read_once_though_the_kubelet_knows_only_seconds(
    runtime: KubernetesRuntime, driver: StartedDriver, api: ApiServerInMemory
) -> None:
    reader, lines = Reader(runtime, driver), [f"line {number}" for number in range(60)]
    read = []
    # Two lines have one moment, and twenty one second: most looks begin in the middle of both.
    for count in (0, 1, 4, 4, 7, 30, 60):
        api.logs[POD] = "\n".join(lines[:count])
        read.append(reader.read())
    assert [len(each) for each in read] == [0, 1, 3, 0, 3, 23, 30]
    assert [line for each in read for line in each] == lines


def test_of_very_many_lines_the_newest_are_shown(
    runtime: KubernetesRuntime, driver: StartedDriver, api: ApiServerInMemory
) -> None:
    reader, lines = Reader(runtime, driver), [f"line {number}" for number in range(3 * LINES_AT_ONCE)]
    api.logs[POD] = lines[0]
    assert reader.read() == lines[:1]
    api.logs[POD] = "\n".join(lines)
    first, *newest = reader.read()
    assert first.endswith(driver.log)
    assert newest == lines[-LINES_AT_ONCE:]
    assert reader.read() == []


def test_an_event_is_told_once_and_a_later_one_again(
    runtime: KubernetesRuntime, driver: StartedDriver, api: ApiServerInMemory
) -> None:
    reader = Reader(runtime, driver)
    api.warn(POD, "FailedScheduling", "0/1 nodes are available: 1 Insufficient memory.")
    assert reader.read() == [f"{POD}: FailedScheduling: 0/1 nodes are available: 1 Insufficient memory."]
    api.warn(POD, "FailedScheduling", "0/1 nodes are available: 1 Insufficient memory.")
    api.warn(POD, "Failed", 'Failed to pull image "a:1":\nnot found\x1b[2J')
    assert reader.read() == [rf'{POD}: Failed: Failed to pull image "a:1": not found\x1b[2J']
    assert reader.read() == []


def test_each_end_of_a_container_is_told_with_what_it_wrote_last(
    runtime: KubernetesRuntime, driver: StartedDriver, api: ApiServerInMemory
) -> None:
    reader = Reader(runtime, driver)
    ended = {"startedAt": "2026-01-01T00:00:00Z", "reason": "OOMKilled", "exitCode": 137}
    api.logs[POD] = "one"
    assert reader.read() == ["one"]
    for restarts in (0, 1):
        state = container({"terminated": ended}, restarts=restarts)
        api.change_pod(POD, {"phase": "Running", "containerStatuses": [state]})
        again = ", after 1 restart" if restarts else ""
        assert reader.read() == [f"{POD}: its container ended: OOMKilled, exit 137{again}"]
    api.change_pod(POD, crash_looping(datetime.now(UTC), "OOMKilled", 137))
    assert reader.read() == [f"{POD}: its container ended: OOMKilled, exit 137, after 2 restarts"]


def test_a_position_of_before_begins_at_its_second(api: ApiServerInMemory) -> None:
    api.logs[POD] = "\n".join(f"line {number}" for number in range(60))
    since = LOG_BEGINS.replace(second=1, microsecond=900_000)
    text = api.log(POD, "driver", 100, since=since)
    assert text.splitlines()[0] == "2026-01-01T00:00:01.000000000Z line 20"
