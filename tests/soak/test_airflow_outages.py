"""Further faults of a real Airflow with real drivers: outages, hung and killed drivers, hostile forms.

`test_airflow_faults.py` has the workers that are killed inside an action.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pytest

from tests.support.airflow_server import status_of
from tests.support.eventually import eventually
from tests.support.fault_world import POISON, PROGRESS_TIMEOUT_SECONDS, SMALL_FILES, FaultWorld
from tests.support.hostile_values import SENTENCES, hostile_forms
from tidemill.airflow_names import (
    BACKFILL_DAG_ID,
    STREAMS_DAG_ID,
    TABLE_MAINTENANCE_DAG_ID,
    checkpoint_dag_id,
    incremental_dag_id,
)
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.control.local.process_identity import ProcessIdentity
from tidemill.control.local.process_session import session_members
from tidemill.control.procedures.verb_forms import FORMS
from tidemill.control.runtime import StartedDriver
from tidemill.errors import UnavailableError

# One test: drivers are started two or three times, and reconciliation looks once a minute.
pytestmark = pytest.mark.timeout(1_800)

on_sqlite = pytest.mark.parametrize("world", ["sqlite"], indirect=True, scope="session")
on_postgres = pytest.mark.parametrize("world", ["postgres"], indirect=True, scope="session")
on_both = pytest.mark.parametrize("world", ["sqlite", "postgres"], indirect=True, scope="session")

SLOW = incremental_dag_id("slow")


def begin_slow(world: FaultWorld) -> tuple[str, int]:
    """Begin a run of many batches; return its id and the number of earlier drivers."""
    world.events["slow"].send(80)
    epoch = world.airflow.epoch("slow")
    run_id = world.airflow.begin(SLOW)
    world.airflow.until_task(SLOW, run_id, "run", "deferred")
    eventually(lambda: world.airflow.epoch("slow") == epoch + 1, "the driver is at work", 120)
    return run_id, epoch


def assert_ends_with_the_same_driver(world: FaultWorld, run_id: str, epoch: int) -> None:
    assert world.airflow.end(SLOW, run_id) == "success"
    world.assert_sound("slow")
    assert world.airflow.epoch("slow") == epoch + 1


def process_of(driver: StartedDriver | None) -> ProcessIdentity:
    assert driver is not None
    return ProcessIdentity.of(int(driver.process.removeprefix("pid ")))


def begin_backfill(world: FaultWorld) -> str:
    """Begin a backfill next to the stream, wait until its driver works, and return the run id."""
    events = world.events["live"]
    if not events.good:
        events.send(60)
    world.be_at_work("live")
    world.until_all_are_there("live")
    run_id = world.airflow.begin(BACKFILL_DAG_ID, {**world.backfill_of("live"), "dry_run": False})
    world.airflow.until_task(BACKFILL_DAG_ID, run_id, "apply", "deferred")
    return run_id


@on_both
def test_all_of_airflow_killed_inside_an_incremental_run_and_a_backfill(world: FaultWorld) -> None:
    backfill = begin_backfill(world)
    run_id, epoch = begin_slow(world)
    world.airflow.kill_and_start_again()
    assert world.airflow.end(BACKFILL_DAG_ID, backfill) == "success"
    world.assert_sound("live")
    assert_ends_with_the_same_driver(world, run_id, epoch)


@on_sqlite
@pytest.mark.parametrize("part", ["scheduler", "triggerer", "api-server", "dag-processor"])
def test_a_part_of_airflow_killed_inside_an_incremental_run(world: FaultWorld, part: str) -> None:
    run_id, epoch = begin_slow(world)
    try:
        world.airflow.kill_part_and_start_again(part)
        assert_ends_with_the_same_driver(world, run_id, epoch)
    finally:
        world.airflow.end_started_parts()
        world.airflow.kill_and_start_again()


@on_postgres
def test_the_database_killed_inside_an_incremental_run(world: FaultWorld) -> None:
    run_id, epoch = begin_slow(world)
    assert world.postgres is not None
    world.postgres.stop()
    # The driver needs no Airflow.
    world.until_all_are_there("slow")
    world.postgres.start()
    world.airflow.start_what_has_ended()
    assert_ends_with_the_same_driver(world, run_id, epoch)


@on_sqlite
def test_a_run_cleared_twice_while_it_waits(world: FaultWorld) -> None:
    run_id, epoch = begin_slow(world)
    for _ in range(2):
        world.airflow.clear(SLOW, run_id)
        world.airflow.until_task(SLOW, run_id, "run", "deferred")
    assert_ends_with_the_same_driver(world, run_id, epoch)


@on_sqlite
def test_two_runs_at_once(world: FaultWorld) -> None:
    run_id, epoch = begin_slow(world)
    second = world.airflow.begin(SLOW)
    assert world.airflow.end(SLOW, run_id) == "success"
    assert world.airflow.end(SLOW, second) == "success"
    # The second one had nothing left to read.
    assert world.airflow.tasks(SLOW, second) == {"run": "skipped"}
    world.assert_sound("slow")
    assert world.airflow.epoch("slow") == epoch + 2


@on_sqlite
def test_a_dag_paused_while_its_run_waits(world: FaultWorld) -> None:
    run_id, epoch = begin_slow(world)
    world.airflow.pause(SLOW)
    world.until_all_are_there("slow")
    eventually(lambda: world.plane.running("slow") is None, "the driver ends", 120)
    assert world.airflow.api.run(SLOW, run_id)["state"] == "running"
    world.airflow.api.unpause(SLOW)
    assert_ends_with_the_same_driver(world, run_id, epoch)


@on_sqlite
def test_a_dag_deleted_while_its_run_waits(world: FaultWorld) -> None:
    _, epoch = begin_slow(world)
    world.airflow.delete_dag(SLOW)
    # No task waits for its driver, which continues.
    world.standing.settle(**{"tidemill.control.ask.waiting_task:LONGEST_START": 1})
    world.until_all_are_there("slow")
    eventually(lambda: world.plane.running("slow") is None, "the driver ends", 120)
    world.events["slow"].send(10)
    world.run_incremental("slow")
    # The note of the waiting task is deleted.
    world.assert_sound("slow")
    assert world.airflow.epoch("slow") == epoch + 2
    world.standing.settle()


@on_sqlite
def test_the_driver_of_a_backfill_killed_while_its_task_waits(world: FaultWorld) -> None:
    run_id = begin_backfill(world)
    assert world.plane.runtime.kill(running_backfill(world))
    assert world.airflow.end(BACKFILL_DAG_ID, run_id) == "success"
    assert world.airflow.tries(BACKFILL_DAG_ID, run_id, "apply") > 1
    world.assert_sound("live")

    # One user gives the task up, and another user clears it.
    run_id = begin_backfill(world)
    world.airflow.mark_as_failed(BACKFILL_DAG_ID, run_id, "apply")
    assert world.airflow.end(BACKFILL_DAG_ID, run_id) == "failed"
    world.airflow.clear(BACKFILL_DAG_ID, run_id)
    assert world.airflow.end(BACKFILL_DAG_ID, run_id) == "success"
    world.assert_sound("live")


def running_backfill(world: FaultWorld) -> StartedDriver:
    driver = world.plane.running("live", "backfill")
    assert driver is not None
    return driver


@on_sqlite
def test_a_stream_a_backfill_and_maintenance_at_once(world: FaultWorld) -> None:
    table = world.events["live"].table
    world.be_at_work("live")
    world.have_small_files("live")
    small = set(world.lake.data_files(table))
    # There is something that no version needs, for the retention at least.
    world.age("live")
    driver = world.plane.running("live")
    with world.events["live"].flowing():
        for _ in range(2):
            backfill = begin_backfill_at_once(world)
            maintenance = world.airflow.begin(TABLE_MAINTENANCE_DAG_ID)
            assert world.airflow.end(BACKFILL_DAG_ID, backfill) == "success"
            assert world.airflow.tries(BACKFILL_DAG_ID, backfill, "apply") == 1
            assert world.airflow.end(TABLE_MAINTENANCE_DAG_ID, maintenance) == "success"
    assert len(small - set(world.lake.data_files(table))) > SMALL_FILES
    world.until_all_are_there("live")
    world.assert_sound("live")
    assert world.plane.running("live") == driver


def begin_backfill_at_once(world: FaultWorld) -> str:
    return world.airflow.begin(BACKFILL_DAG_ID, {**world.backfill_of("live"), "dry_run": False})


@on_sqlite
def test_a_hung_driver_is_ended_and_another_one_goes_on(world: FaultWorld) -> None:
    events, plane = world.events["hung"], world.plane
    world.be_still("live")
    events.send(30)
    world.be_at_work("hung")
    world.until_all_are_there("hung")
    hung = plane.running("hung")
    leader = process_of(hung)
    for process in (leader, *session_members(leader)):
        process.signal(signal.SIGSTOP)
    events.send(30)
    world.standing.settle(**{"tidemill.engine.liveness:LEAST_SILENCE": 20})

    def is_asked_to_end() -> bool:
        driver = plane.running("hung")
        return driver is not None and driver.drain_requested_at is not None

    eventually(is_asked_to_end, "reconciliation sees that it hangs", 240, poll_seconds=1)
    world.standing.settle()
    # It is killed at the end of its grace period.
    eventually(lambda: not leader.is_alive(), "it is gone", 240, poll_seconds=1)
    eventually(events.are_all_there, "another one reads on", PROGRESS_TIMEOUT_SECONDS + 120, poll_seconds=1)
    world.assert_sound("hung")
    assert "it hangs, and no sign of life" in world.airflow.log_of(STREAMS_DAG_ID, "reconcile")
    world.act("hung", "stop")


@on_sqlite
def test_records_at_which_the_transform_fails_go_to_the_quarantine(world: FaultWorld) -> None:
    events = world.events["poisoned"]
    events.send(60)
    world.run_incremental("poisoned")
    assert events.rows() == Counter(id_ for id_ in events.good if id_ not in POISON)
    rejected = [row["value"] for row in world.lake.quarantined("poisoned")]
    assert Counter(rejected) == Counter([*events.broken, *map(events.value_of, POISON)])


@on_sqlite
def test_hostile_values_in_every_form_are_refused_and_nothing_is_touched(world: FaultWorld) -> None:
    world.have_batches("daily", 1)
    for name in ("live", "hung", "small"):
        world.be_still(name)
    before = world.files()
    asked = Counter[str]()
    for dag_id in world.airflow.api.dag_ids():
        for name, form in hostile_forms(world.airflow.params(dag_id)):
            assert f"Invalid input for param {name}" in refusal_of(world, dag_id, form), (dag_id, form)
            asked[dag_id] += 1
    # Every DAG that has a form.
    assert len(asked) > len(FORMS)
    assert world.files() == before


def refusal_of(world: FaultWorld, dag_id: str, form: dict[str, Any]) -> str:
    with pytest.raises(UnavailableError) as caught:
        world.airflow.api.trigger(dag_id, form)
    assert status_of(caught.value) == 400
    return str(caught.value.facts["reason"])


@on_sqlite
def test_a_hostile_sentence_is_kept_as_it_is_written(world: FaultWorld) -> None:
    world.have_batches("daily", 1)
    reason = " ".join(SENTENCES)
    run_id, state = world.airflow.run(
        checkpoint_dag_id("hold"),
        {"pipeline": "daily", "id": "hostile", "reason": reason, "dry_run": False},
    )
    assert state == "success"
    entries = read_audit(world.plane.store, world.plane.layout, "daily")
    assert f"{reason} (DAG run {run_id})" in [entry.why for entry in entries]
    assert world.verb("release", "daily", hold="hostile") == "success"
