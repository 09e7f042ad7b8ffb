"""Stops that fail half-way, and the objects that a stop must find and leave behind."""

from __future__ import annotations

import pytest

from tests.support.api_server import ApiServerInMemory, away, crash_looping
from tests.support.cluster_project import Clock, ClusterProject
from tests.support.drivers_as_pods import POD, bounded, is_alive, newest, started, stream
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import (
    DISRUPTION_BUDGETS,
    JOBS,
    PODS,
    STATEFUL_SETS,
    Document,
    Kind,
)
from tidemill.control.kubernetes.kubernetes_runtime import KILL_GRACE_SECONDS, KubernetesRuntime
from tidemill.errors import UnavailableError


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def runtime(cluster_project: ClusterProject, api: ApiServerInMemory, clock: Clock) -> KubernetesRuntime:
    return cluster_project.runtime(api, clock=clock)


def the_pod(api: ApiServerInMemory) -> Document:
    (pod,) = api.list(PODS, {})
    return pod


def grace_of(pod: Document) -> int:
    """Return the grace period in seconds of a pod's deletion."""
    seconds: int = pod["metadata"]["deletionGracePeriodSeconds"]
    return seconds


def own_grace(pod: Document) -> int:
    seconds: int = pod["spec"]["terminationGracePeriodSeconds"]
    return seconds


def refuse(api: ApiServerInMemory, verb: str, kind: Kind) -> None:
    """Let one kind of request fail until `answer_again`."""

    def before(asked: str, its: Kind) -> None:
        if (asked, its) == (verb, kind):
            away(asked, its)

    api.before = before


def answer_again(api: ApiServerInMemory) -> None:
    api.before = ApiServerInMemory().before


@pytest.mark.parametrize(
    ("run", "lost"),
    [(stream(), ("patch", STATEFUL_SETS)), (bounded(pipeline="orders"), ("delete", JOBS))],
    ids=["stream", "bounded"],
)
def test_a_driver_whose_drain_never_reached_it_is_drained_before_it_is_killed(
    runtime: KubernetesRuntime,
    api: ApiServerInMemory,
    clock: Clock,
    run: DriverRun,
    lost: tuple[str, Kind],
) -> None:
    driver = started(runtime, run)
    api.settle()
    refuse(api, *lost)
    with pytest.raises(UnavailableError):
        runtime.drain(driver)
    answer_again(api)
    clock.pass_by(600)
    assert runtime.kill(driver)
    assert newest(runtime).drain_requested_at == clock.now
    api.controllers()
    assert grace_of(the_pod(api)) == own_grace(the_pod(api)) > KILL_GRACE_SECONDS
    clock.pass_by(600)
    assert runtime.kill(driver)
    assert grace_of(the_pod(api)) == KILL_GRACE_SECONDS
    api.settle()
    assert not is_alive(runtime)


def test_a_drain_that_was_noted_only_is_carried_out_when_asked_again(
    runtime: KubernetesRuntime, api: ApiServerInMemory
) -> None:
    driver = started(runtime, stream())
    api.settle()
    refuse(api, "patch", STATEFUL_SETS)
    with pytest.raises(UnavailableError):
        runtime.drain(driver)
    answer_again(api)
    assert runtime.drain(newest(runtime))
    writes = []
    api.before = lambda verb, kind: writes.append((verb, kind)) if verb not in ("get", "list") else None
    assert runtime.drain(newest(runtime))
    assert writes == []
    api.settle()
    assert not is_alive(runtime)


def test_a_pod_without_its_stateful_set_is_drained(
    runtime: KubernetesRuntime, api: ApiServerInMemory
) -> None:
    driver = started(runtime, stream())
    api.settle()
    api.delete(STATEFUL_SETS, "tidemill-orders", {"propagationPolicy": "Orphan"})
    api.settle()
    assert api.running_pods == [POD]
    assert runtime.drain(driver)
    assert grace_of(the_pod(api)) == own_grace(the_pod(api))
    api.settle()
    assert (newest(runtime).alive, api.running_pods) == (False, [])


def test_a_stopped_stream_leaves_no_disruption_budget(
    runtime: KubernetesRuntime, api: ApiServerInMemory
) -> None:
    for number, end in enumerate([runtime.drain, runtime.kill]):
        driver = started(runtime, stream(f"run-{number}"))
        api.settle()
        assert api.get(DISRUPTION_BUDGETS, "tidemill-orders") is not None
        assert end(driver)
        assert api.get(DISRUPTION_BUDGETS, "tidemill-orders") is None
        api.settle()


def test_a_crash_looping_stream_that_is_put_away_leaves_no_disruption_budget(
    runtime: KubernetesRuntime, api: ApiServerInMemory, clock: Clock
) -> None:
    started(runtime, stream())
    api.settle()
    api.change_pod(POD, crash_looping(clock.now))
    # The next attempt succeeds even if the first one fails half-way.
    refuse(api, "patch", STATEFUL_SETS)
    with pytest.raises(UnavailableError):
        runtime.put_away(newest(runtime))
    answer_again(api)
    runtime.put_away(newest(runtime))
    assert api.get(DISRUPTION_BUDGETS, "tidemill-orders") is None
    api.settle()
    writes = []
    api.before = lambda verb, kind: writes.append((verb, kind)) if verb not in ("get", "list") else None
    runtime.put_away(newest(runtime))
    assert writes == []
