"""A real Airflow with real drivers, and a worker that is killed inside each action of each DAG.

Airflow repeats the task by itself. Shown is what must hold then: every record once, no hold left, no driver
twice, and no success that was not proven. Other faults of Airflow are in `test_airflow_outages.py`.
"""

from __future__ import annotations

import pytest

from tests.support import action_kills
from tests.support.action_kills import Kill
from tests.support.fault_world import FORK, SMALL_FILES, FaultWorld
from tests.support.killed_verbs import (
    KEYED,
    OF_STATE,
    VERBS,
    backups,
    holds,
    prepared,
    prepared_with_state,
)
from tests.support.standing_task import Moment
from tidemill.airflow_names import (
    BACKFILL_DAG_ID,
    STREAM_ASSETS_DAG_ID,
    STREAMS_DAG_ID,
    checkpoint_dag_id,
    stream_dag_id,
)
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.verbs.backup_manifest import read_manifests

# One test: drivers are started two or three times, and a lost worker is missed after half a minute.
pytestmark = pytest.mark.timeout(1_800)

on_sqlite = pytest.mark.parametrize("world", ["sqlite"], indirect=True, scope="session")
on_postgres = pytest.mark.parametrize("world", ["postgres"], indirect=True, scope="session")

INCREMENTAL = action_kills.of_incremental("daily")
BACKFILL = action_kills.of_backfill()
IN_STREAM = action_kills.of_stream("live")


def incremental_is_killed(world: FaultWorld, kill: Kill) -> None:
    events, epoch = world.events["daily"], world.airflow.epoch("daily")
    events.send(30)
    world.assert_succeeds_by_itself(kill.moment, kill.victim)
    world.assert_sound("daily")
    # The driver that the killed worker had started was found again.
    assert world.airflow.epoch("daily") == epoch + 1


def backfill_is_killed(world: FaultWorld, kill: Kill) -> None:
    events = world.events["live"]
    events.send(60)
    world.be_at_work("live")
    world.until_all_are_there("live")
    driver = world.plane.running("live")
    asked = {**world.backfill_of("live"), "dry_run": False}
    with events.flowing():
        run_id = world.assert_succeeds_by_itself(kill.moment, kill.victim, asked)
    (table,) = world.airflow.result(BACKFILL_DAG_ID, run_id, "apply")
    assert (table["table"], table["rows"]) == ("bronze/live", 45)
    world.until_all_are_there("live")
    world.assert_sound("live")
    # The stream continued all the time.
    assert world.plane.running("live") == driver


@on_sqlite
@pytest.mark.parametrize("kill", INCREMENTAL, ids=str)
def test_a_worker_killed_inside_an_incremental_run(world: FaultWorld, kill: Kill) -> None:
    incremental_is_killed(world, kill)


@on_postgres
def test_a_worker_killed_inside_an_incremental_run_over_postgres(world: FaultWorld) -> None:
    incremental_is_killed(world, INCREMENTAL[1])


@on_sqlite
@pytest.mark.parametrize("action", IN_STREAM)
def test_a_worker_killed_inside_an_action_on_a_stream(world: FaultWorld, action: str) -> None:
    kill, events = IN_STREAM[action], world.events["live"]
    if action == "start":
        world.be_still("live")
    elif action != "resume":
        world.be_at_work("live")
    elif not world.is_suspended("live"):
        world.be_at_work("live")
        world.act("live", "suspend")
    events.send(30)
    epoch = world.airflow.epoch("live")

    run_id = world.assert_succeeds_by_itself(kill.moment, kill.victim, {"action": action})

    starts = action in ("start", "restart", "resume")
    assert world.airflow.epoch("live") == epoch + int(starts)
    assert (world.plane.running("live") is not None) == starts
    proof = world.airflow.result(stream_dag_id("live"), run_id, "prove")
    assert ("batch_id" in proof) if starts else proof["result"] == "clean"
    if starts:
        world.until_all_are_there("live")
        world.assert_sound("live")


@on_sqlite
def test_a_worker_killed_inside_reconciliation(world: FaultWorld) -> None:
    kill, plane, events = action_kills.of_reconciliation(), world.plane, world.events["live"]
    world.be_still("live")
    events.send(30)
    epoch = world.airflow.epoch("live")
    world.standing.ask(kill.moment)
    write_desired(plane.store, plane.layout, "live", Desired(state="running", by="tests"))
    standing = world.standing.reached(kill.moment)
    standing.kill(kill.victim)
    # It is not repeated: the run of the next minute is its retry.
    assert world.airflow.end(STREAMS_DAG_ID, standing.run_id) == "failed"
    run_id, state = world.airflow.run(STREAMS_DAG_ID)
    assert state == "success"
    assert world.airflow.result(STREAMS_DAG_ID, run_id, "reconcile")["live"] == "leave"
    world.until_all_are_there("live")
    world.assert_sound("live")
    assert world.airflow.epoch("live") == epoch + 1


@on_sqlite
@pytest.mark.parametrize("kill", BACKFILL, ids=str)
def test_a_worker_killed_inside_a_backfill(world: FaultWorld, kill: Kill) -> None:
    backfill_is_killed(world, kill)


@on_postgres
def test_a_worker_killed_inside_a_backfill_over_postgres(world: FaultWorld) -> None:
    backfill_is_killed(world, BACKFILL[2])


@on_sqlite
@pytest.mark.parametrize("verb", VERBS)
def test_a_worker_killed_inside_a_verb(world: FaultWorld, verb: str) -> None:
    kill, fields = action_kills.of_verb(verb, *VERBS[verb]), prepared(world, verb)
    asked = {"pipeline": "daily", "reason": "soak", "dry_run": False, **fields}
    world.assert_succeeds_by_itself(kill.moment, kill.victim, asked)
    if verb == "hold":
        assert holds(world) == ["by-hand"]
        assert world.verb("release", "daily", hold="by-hand") == "success"
    assert verb != "backup" or backups(world)
    world.events["daily"].send(10)
    for name in ("daily", FORK) if verb == "fork" else ("daily",):
        world.run_incremental(name)
        world.assert_sound(name)


@on_sqlite
def test_a_worker_killed_in_each_task_of_a_verb_that_stops_its_stream(world: FaultWorld) -> None:
    dag_id, events = checkpoint_dag_id("rewind"), world.events["live"]
    events.send(30)
    world.be_at_work("live")
    world.until_all_are_there("live")
    moments = [
        Moment(dag_id, "stop", "tidemill.control.procedures.standstill:stand_still", "after"),
        Moment(dag_id, "plan", "tidemill.control.procedures.runbook:show_plan", "after"),
        Moment(dag_id, "apply", "tidemill.checkpoint.procedure.carry_out:note_step", "before"),
        Moment(dag_id, "start", action_kills.STARTED, "after"),
    ]
    for moment in moments:
        world.standing.ask(moment)
    epoch = world.airflow.epoch("live")
    asked = {"pipeline": "live", "to": "0", "reason": "soak", "dry_run": False}
    run_id = world.airflow.begin(dag_id, asked)
    for moment in moments:
        world.standing.reached(moment).kill("task")
    assert world.airflow.end(dag_id, run_id) == "success"
    assert all(world.airflow.tries(dag_id, run_id, moment.task_id) > 1 for moment in moments)
    world.until_all_are_there("live")
    world.assert_sound("live")
    # Two tries of the operation, and one driver.
    assert world.airflow.epoch("live") == epoch + 3


@on_sqlite
@pytest.mark.parametrize("verb", OF_STATE)
def test_a_worker_killed_inside_a_verb_about_state(world: FaultWorld, verb: str) -> None:
    """A repartition's Spark part rewrites the state and survives the worker."""
    kill, fields = action_kills.of_verb(verb, *OF_STATE[verb]), prepared_with_state(world, verb)
    asked = {"pipeline": KEYED, "reason": "soak", "dry_run": False, **fields}
    world.assert_succeeds_by_itself(kill.moment, kill.victim, asked)
    # Records that the state has seen already, and new ones.
    world.events[KEYED].send_again(10)
    world.events[KEYED].send(10)
    world.run_incremental(KEYED)
    world.assert_sound(KEYED)


@on_sqlite
def test_a_worker_killed_while_it_tells_what_a_stream_has_committed(world: FaultWorld) -> None:
    world.be_at_work("small")
    world.events["small"].send(30)
    world.until_all_are_there("small")
    # The schedule runs it each minute.
    world.standing.ask(action_kills.TOLD.moment)
    standing = world.standing.reached(action_kills.TOLD.moment)
    standing.kill(action_kills.TOLD.victim)
    assert world.airflow.end(STREAM_ASSETS_DAG_ID, standing.run_id) == "success"
    assert world.airflow.tries(STREAM_ASSETS_DAG_ID, standing.run_id, "tell") > 1
    # Each event begins where the previous one has ended.
    told = world.airflow.events_of("bronze/small", "stream")
    assert [each["after_version"] for each in told] == [None, *(each["version"] for each in told[:-1])]
    assert sum(each["rows"] for each in told) == len(world.events["small"].good)


@on_sqlite
def test_a_worker_killed_inside_table_maintenance(world: FaultWorld) -> None:
    table = world.events["small"].table
    world.be_at_work("small")
    world.have_small_files("small")
    small = set(world.lake.data_files(table))
    world.assert_mapped_succeeds_by_itself(action_kills.COMPACTION)
    assert len(small - set(world.lake.data_files(table))) > SMALL_FILES

    world.be_still("small")
    old = world.age("small")
    world.assert_mapped_succeeds_by_itself(action_kills.VACUUM)
    assert [file for file in old if not file.exists()]
    world.be_at_work("small")
    world.until_all_are_there("small")
    world.assert_sound("small")


@on_sqlite
def test_a_worker_killed_inside_checkpoint_hygiene(world: FaultWorld) -> None:
    world.have_batches("daily", 1)
    world.be_at_work("live")
    world.until_all_are_there("live")
    world.assert_mapped_succeeds_by_itself(action_kills.HYGIENE)
    for name in ("daily", "live"):
        world.assert_sound(name)
        assert read_manifests(world.plane.store, world.plane.layout, name)


@on_sqlite
def test_a_worker_killed_inside_a_shadow_run(world: FaultWorld) -> None:
    world.have_batches("daily", 2)
    kill = action_kills.SHADOW
    run_id = world.assert_succeeds_by_itself(kill.moment, kill.victim, {"pipeline": "daily", "batches": 1})
    assert world.airflow.result(kill.moment.dag_id, run_id, "run")["pipeline"] == "daily"
    assert world.plane.running("daily", "aside") is None
    world.assert_sound("daily")


@on_sqlite
def test_a_worker_killed_inside_a_game_day(world: FaultWorld) -> None:
    world.be_at_work("live")
    world.until_all_are_there("live")
    driver = world.plane.running("live")
    kill = action_kills.GAME_DAY
    run_id = world.assert_succeeds_by_itself(kill.moment, kill.victim, {"pipeline": "live"})
    results = world.airflow.result(kill.moment.dag_id, run_id, "play")["results"]
    assert {result["outcome"] for result in results} <= {"recovered", "not possible"}
    # Nothing of the copy is left, and the stream was only read.
    assert not world.plane.store.list_files(world.plane.layout.game_day("live"))
    assert world.plane.running("live") == driver
    world.assert_sound("live")
