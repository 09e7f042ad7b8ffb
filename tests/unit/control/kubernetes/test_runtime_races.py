"""Starters that race, die or sleep between any two requests: one driver, and no request lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.support.api_server import (
    ApiServerInMemory,
    StarterDiedError,
)
from tests.support.cluster_project import Clock, ClusterProject, make_owner
from tests.support.drivers_as_pods import POD, bounded, job_name, newest, started, stream
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import CONFIG_MAPS, JOBS, PODS, SERVICES, STATEFUL_SETS, Document, Kind
from tidemill.control.kubernetes.slot_record import START_GRACE, record_of
from tidemill.control.kubernetes.workload import make_workload
from tidemill.errors import UnavailableError


class AtRequest:
    """Does something once: before the request of this number.

    Args:
        number: Counted from 0.
        act: What is done.
    """

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self._left = number
        self._act = act
        self.fired = False

    def __call__(self, _verb: str, _kind: Kind) -> None:
        self._left -= 1
        if self._left == -1:
            self.fired = True
            self._act()


def dies() -> None:
    raise StarterDiedError


def namespace() -> ApiServerInMemory:
    """Return an empty one, with the chart's ConfigMap."""
    api = ApiServerInMemory()
    make_owner(api)
    return api


def requests_of(project: ClusterProject, run: DriverRun) -> range:
    """Return the numbers of all requests of an undisturbed start."""
    api, asked = namespace(), list[str]()
    api.before = lambda verb, _kind: asked.append(verb)
    project.runtime(api).start(run, "d1")
    assert len(asked) > 5
    return range(len(asked))


def test_twenty_starters_at_once_start_one_driver(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    barrier = threading.Barrier(20)

    def start(number: int) -> tuple[bool, str]:
        runtime = cluster_project.runtime(api)
        barrier.wait()
        result = runtime.start(stream(f"run-{number}"), "d1")
        return result.started, result.driver.run_id

    with ThreadPoolExecutor(20) as threads:
        results = list(threads.map(start, range(20)))
    assert [has for has, _ in results].count(True) == 1
    assert len({run_id for _, run_id in results}) == 1
    api.settle()
    assert api.running_pods == [POD]


@pytest.mark.parametrize("run", [stream(), bounded("run-1", "orders")], ids=["stream", "bounded"])
def test_a_starter_killed_at_any_request_leaves_nothing_or_one_driver(
    cluster_project: ClusterProject, run: DriverRun
) -> None:
    for number in requests_of(cluster_project, run):
        clock, api, kill = Clock(), namespace(), AtRequest(number, dies)
        api.before = kill
        with pytest.raises(StarterDiedError):
            cluster_project.runtime(api, clock=clock).start(run, "d1")
        assert kill.fired
        api.before = ApiServerInMemory().before
        # The same request, repeated at once, continues where the first one stopped.
        result = cluster_project.runtime(api, clock=clock).start(run, "d1")
        assert (result.driver.run_id, result.driver.alive) == ("run-1", True), number
        api.settle()
        assert len(api.running_pods) == 1, number


@pytest.mark.parametrize("pipeline", ["orders", "daily"], ids=["stream", "bounded"])
def test_a_claim_of_a_starter_that_died_is_free_after_a_while(
    cluster_project: ClusterProject, pipeline: str
) -> None:
    run = stream if pipeline == "orders" else bounded
    for number in requests_of(cluster_project, run("run-1")):
        clock, api = Clock(), namespace()
        api.before = AtRequest(number, dies)
        with pytest.raises(StarterDiedError):
            cluster_project.runtime(api, clock=clock).start(run("run-1"), "d1")
        api.before = ApiServerInMemory().before
        runtime = cluster_project.runtime(api, clock=clock)
        assert runtime.start(run("run-2"), "d1").driver.alive, number
        clock.pass_by(START_GRACE.total_seconds() + 1)
        assert runtime.start(run("run-3"), "d1").driver.alive, number
        api.settle()
        assert newest(runtime, pipeline).alive, number
        assert len(api.running_pods) == 1, number
        # No Job is left that no control plane will ever resume.
        assert len(api.list(JOBS, {})) == (pipeline == "daily"), number


@pytest.mark.parametrize("pipeline", ["orders", "daily"], ids=["stream", "bounded"])
def test_a_starter_that_is_held_up_at_any_request_makes_no_second_driver(
    cluster_project: ClusterProject, pipeline: str
) -> None:
    run = stream if pipeline == "orders" else bounded
    for number in requests_of(cluster_project, run("run-1")):
        clock, api = Clock(), namespace()
        another = partial(another_one_starts, cluster_project, api, clock, run("run-2"))
        api.before = sleeps = AtRequest(number, another)
        cluster_project.runtime(api, clock=clock).start(run("run-1"), "d1")
        assert sleeps.fired
        api.settle()
        (pod,) = api.list(PODS, {})
        lives, claim = record_of(pod), record_of(api.get(CONFIG_MAPS, f"tidemill-{pipeline}"))
        assert lives is not None
        assert lives == claim, number
        assert newest(cluster_project.runtime(api, clock=clock), pipeline).run_id == lives.run_id, number


def another_one_starts(project: ClusterProject, api: ApiServerInMemory, clock: Clock, run: DriverRun) -> None:
    """Start the driver again while another starter sleeps longer than a claim waits for its workload."""
    clock.pass_by(START_GRACE.total_seconds() + 1)
    project.runtime(api, clock=clock).start(run, "d1")
    api.settle()


def test_a_starter_steps_back_for_one_who_went_on_when_nobody_expected_it(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    clock = Clock()
    runtime = cluster_project.runtime(api, clock=clock)

    def dies_before_it_lets_the_job_run(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("patch", JOBS):
            raise StarterDiedError

    api.before = dies_before_it_lets_the_job_run
    with pytest.raises(StarterDiedError):
        runtime.start(bounded("run-1"), "d1")

    def was_only_held_up(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("delete", JOBS):
            api.before = ApiServerInMemory().before
            api.patch(JOBS, job_name(api), {"spec": {"suspend": False}})

    api.before = was_only_held_up
    clock.pass_by(START_GRACE.total_seconds() + 1)
    result = runtime.start(bounded("run-2"), "d1")
    assert (result.started, result.driver.run_id, result.driver.alive) == (False, "run-1", True)
    api.settle()
    assert len(api.running_pods) == 1


def test_a_starter_that_lost_its_claim_takes_no_job_from_the_one_who_has_it(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    went_on = []

    def another_one_goes_on(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("patch", JOBS):
            went_on.append(True)
            api.before = ApiServerInMemory().before
            make_workload(api, cluster_project.start(bounded("run-1")))

    api.before = another_one_goes_on
    started(cluster_project.runtime(api), bounded("run-2"))
    assert went_on
    api.settle()
    (pod,) = api.list(PODS, {})
    assert record_of(pod) == record_of(api.get(CONFIG_MAPS, "tidemill-daily"))


def test_a_job_whose_status_is_written_meanwhile_is_let_run(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    turns = []

    def its_controller_takes_a_turn(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("patch", JOBS):
            turns.append(True)
            api.controllers()

    api.before = its_controller_takes_a_turn
    started(cluster_project.runtime(api), bounded())
    assert len(turns) == 2
    api.settle()
    assert len(api.running_pods) == 1


def test_a_claim_that_was_stored_while_its_answer_was_lost_is_ones_own(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    started(runtime, bounded("run-1"))
    api.finish_job(job_name(api))

    def replace_twice(kind: Kind, document: Document) -> Document:
        ApiServerInMemory.replace(api, kind, document)
        return ApiServerInMemory.replace(api, kind, document)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "replace", replace_twice)
        driver = started(runtime, bounded("run-2"))
    assert (driver.run_id, driver.alive) == ("run-2", True)
    api.settle()
    (pod,) = api.list(PODS, {}, {"status.phase": "Running"})
    assert record_of(pod) == record_of(api.get(CONFIG_MAPS, "tidemill-daily"))


def test_a_stop_asked_for_while_a_driver_is_made_is_not_lost(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    asked = []

    def drains_before_the_stateful_set(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("apply", SERVICES) and not asked:
            asked.append(True)
            runtime = cluster_project.runtime(api)
            assert runtime.drain(newest(runtime))

    api.before = drains_before_the_stateful_set
    runtime = cluster_project.runtime(api)
    assert not runtime.start(stream(), "d1").driver.alive
    api.settle()
    assert api.running_pods == []


def test_a_drain_that_died_halfway_is_done_when_asked_again(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    driver = started(runtime, stream())
    api.settle()

    def dies_before_the_stateful_set(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("patch", STATEFUL_SETS):
            raise StarterDiedError

    api.before = dies_before_the_stateful_set
    with pytest.raises(StarterDiedError):
        runtime.drain(driver)
    api.before = ApiServerInMemory().before
    asked_at = newest(runtime).drain_requested_at
    assert asked_at is not None
    assert runtime.drain(newest(runtime))
    assert newest(runtime).drain_requested_at == asked_at
    api.settle()
    assert api.running_pods == []


def test_a_drain_outlives_changes_by_controllers(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    runtime = cluster_project.runtime(api)
    driver = started(runtime, stream())
    api.settle()
    conflicts = []

    def changed_meanwhile(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("patch", STATEFUL_SETS) and len(conflicts) < 3:
            conflicts.append(True)
            there = api.get(STATEFUL_SETS, "tidemill-orders")
            assert there is not None
            api.put(STATEFUL_SETS, there)

    api.before = changed_meanwhile
    assert runtime.drain(driver)
    api.settle()
    assert (len(conflicts), api.running_pods) == (3, [])


def test_a_claim_that_is_deleted_while_its_driver_is_made_leaves_no_driver(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    def somebody_uninstalls(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("apply", SERVICES):
            api.before = ApiServerInMemory().before
            api.delete(CONFIG_MAPS, "tidemill-orders", {})

    api.before = somebody_uninstalls
    with pytest.raises(UnavailableError) as caught:
        cluster_project.runtime(api).start(stream(), "d1")
    assert caught.value.error_id == "TIDE-K8S-010"
    api.settle()
    assert api.running_pods == []
