"""Parts of operations that need Spark, as Jobs: one pod works, and every repeat of the operation finds it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.api_server import ApiServerInMemory, away
from tests.support.cluster_project import OWNER, ClusterProject
from tests.support.eventually import eventually
from tests.support.parts_as_pods import FILES_TO_TABLE, Parts
from tidemill.control.driver_command import DriverRun
from tidemill.control.game_day.rule import DrillResult, GameDay
from tidemill.control.kubernetes import slot_objects
from tidemill.control.kubernetes.api import CONFIG_MAPS, JOBS, PODS
from tidemill.control.kubernetes.stuck import LONGEST_BEFORE_START
from tidemill.engine.part_result import PartResult, write_part_result
from tidemill.errors import SpecError, UnavailableError

PART = DriverRun("orders", "verb", "table_restore-1", ("--restore", "{}"), "table_restore")


def test_a_part_is_a_job_of_one_pod_that_works_alone(cluster_project: ClusterProject) -> None:
    start = cluster_project.start(PART)
    job = slot_objects.job(start)
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"] == [
        *("python", "-m", "tidemill.engine.table_restore", "--project", "/opt/tidemill/project"),
        *("--env", "/etc/tidemill/environment/plant.yaml", "--pipeline", "orders"),
        *("--run-id", "table_restore-1", "--restore", "{}"),
    ]
    # The pod starts no executors and serves no requests.
    assert pod["automountServiceAccountToken"] is False
    assert {"livenessProbe", "readinessProbe", "startupProbe"} & container.keys() == set()
    assert start.slot_name == "tidemill-orders.verb"
    # It goes by itself, with its log.
    assert job["spec"]["ttlSecondsAfterFinished"] == 36 * 3600


def test_a_game_day_is_a_pod_with_memory_for_two_drivers_and_keeps_no_verb_waiting(
    cluster_project: ClusterProject,
) -> None:
    day = DriverRun("orders", "aside", "game_day-1", ("--request", "r"), "game_day")
    start, verb = cluster_project.start(day), cluster_project.start(PART)
    (container,) = slot_objects.job(start)["spec"]["template"]["spec"]["containers"]
    assert container["args"][:3] == ["python", "-m", "tidemill.control.game_day.part"]
    assert container["args"][-4:] == ["--run-id", "game_day-1", "--request", "r"]
    assert (start.slot_name, verb.slot_name) == ("tidemill-orders.aside", "tidemill-orders.verb")
    (other,) = slot_objects.job(verb)["spec"]["template"]["spec"]["containers"]
    of_one = int(other["resources"]["limits"]["memory"].removesuffix("Mi"))
    # Plus the memory of the process that plays the game day.
    assert container["resources"]["limits"]["memory"] == f"{2 * of_one + 512}Mi"
    assert container["resources"]["requests"]["cpu"] == other["resources"]["requests"]["cpu"]
    assert container.keys() == other.keys()
    # A hung game day ends by itself.
    assert slot_objects.job(start)["spec"]["activeDeadlineSeconds"] == 7200
    assert "activeDeadlineSeconds" not in slot_objects.job(verb)["spec"]


@pytest.fixture
def parts(cluster_project: ClusterProject, api: ApiServerInMemory, monkeypatch: pytest.MonkeyPatch) -> Parts:
    return Parts(cluster_project, api, monkeypatch)


def test_a_verb_waits_for_its_part_and_two_of_the_same_share_one(parts: Parts) -> None:
    first, second = parts.begin(), parts.begin()
    parts.pod()
    assert parts.came_to == []
    parts.finish(["done"])
    first.join()
    second.join()
    assert parts.came_to == [["done"], ["done"]]
    assert len(parts.api.list(JOBS, {})) == 1


def test_a_game_day_that_is_asked_for_again_is_the_one_that_is_played(
    cluster_project: ClusterProject, parts: Parts
) -> None:
    cluster_project.declare("orders", FILES_TO_TABLE)
    first, again = parts.play(), parts.play()
    parts.api.logs[parts.pod()["metadata"]["name"]] = "kill: recovered after 9.5 s"
    killed = DrillResult("kill", "recovered", 9.5, "batch 7")
    day = GameDay("orders", "day-1", datetime.now(UTC), "ann", (killed,))
    assert day.as_document()["results"] == [asdict(killed)]
    parts.finish(day.as_document())
    for thread in (first, again):
        thread.join()
    # A later request gets the same result.
    parts.play().join()
    assert parts.came_to == [day, day, day]
    (job,) = parts.api.list(JOBS, {})
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][-5:] == ["--request", "day-1", "--by=ann", "--drill", "kill"]
    assert set(parts.told) == {"kill: recovered after 9.5 s"}


def test_a_part_whose_pod_cannot_start_is_removed_and_told(parts: Parts) -> None:
    verb = parts.begin()
    name = parts.pod()["metadata"]["name"]
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": waiting}]}
    parts.api.change_pod(name, status)
    parts.clock.pass_by((LONGEST_BEFORE_START + timedelta(seconds=60)).total_seconds())
    verb.join()
    (error,) = parts.came_to
    assert error.error_id == "TIDE-CTRL-032"
    assert "ImagePullBackOff" in error.facts["reason"]
    assert parts.api.list(JOBS, {}) == []


def test_a_part_that_was_killed_is_told_by_its_end(parts: Parts) -> None:
    verb = parts.begin()
    parts.pod()
    (job,) = parts.api.list(JOBS, {})
    parts.api.finish_job(job["metadata"]["name"], "Failed")
    verb.join()
    (error,) = parts.came_to
    assert (error.error_id, error.facts["part"]) == ("TIDE-CKPT-077", "table_restore")
    # Typed again, it runs again.
    parts.clock.pass_by(1)
    verb = parts.begin()
    eventually(lambda: len(parts.api.list(JOBS, {})) == 2, "another Job is made")
    eventually(lambda: parts.api.settle() or len(parts.api.list(PODS, {})) == 2, "it has a pod")
    newest = max(
        parts.api.list(JOBS, {}), key=lambda each: each["metadata"]["annotations"]["tidemill/started-at"]
    )
    result = PartResult(run_id=newest["metadata"]["annotations"]["tidemill/run-id"], answer="done")
    write_part_result(parts.plane.store, parts.plane.layout, "orders", result)
    parts.api.finish_job(newest["metadata"]["name"])
    verb.join()
    assert parts.came_to[1] == "done"


def test_a_check_asks_for_the_job_and_makes_nothing(
    cluster_project: ClusterProject, api: ApiServerInMemory
) -> None:
    asked: list[str] = []
    api.before = lambda verb, _kind: asked.append(verb)
    cluster_project.runtime(api).check(PART)
    assert [verb for verb in asked if verb != "get"] == ["check"]
    assert api.list(JOBS, {}) == api.list(PODS, {}) == []


def test_a_check_says_what_a_start_would(cluster_project: ClusterProject, api: ApiServerInMemory) -> None:
    runtime = cluster_project.runtime(api)
    api.delete(CONFIG_MAPS, OWNER, {})
    with pytest.raises(SpecError) as refused:
        runtime.check(PART)
    assert refused.value.error_id == "TIDE-K8S-006"
    api.before = away
    with pytest.raises(UnavailableError):
        runtime.check(PART)
