"""A game day is played on a copy: the live pipeline stays as it is, and each recovery is measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.support.declared import declared
from tests.support.forked_python import run_forked
from tests.support.patient import ORDERS, Patient
from tests.support.patient_fixtures import patient as patient  # a fixture
from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.control.game_day.copy import copied
from tidemill.control.game_day.results import keep, newest
from tidemill.control.game_day.rule import DrillResult, GameDay, Outcome, check_drills, why_not
from tidemill.control.procedures.run import Asking
from tidemill.engine.part_result import read_part_result
from tidemill.errors import GateRefusedError, UnavailableError, UsageError
from tidemill.spec.pod import POD_VARIABLES

PLAYED = ("gameday", "run", "orders")


def files_of(patient: Patient) -> dict[str, int]:
    """Return the live pipeline's files and their times, without the root's owner and the measurements."""
    root = Path(patient.pipeline.layout.root)
    found = (file for part in ("state", "tables/bronze", "audit") for file in (root / part).rglob("*"))
    return {str(file.relative_to(root)): file.stat().st_mtime_ns for file in found if file.is_file()}


def left_over(patient: Patient) -> list[Path]:
    root, run_folder = Path(patient.pipeline.layout.root), patient.drivers.environment.run_folder
    return [
        *(root / "game_days").rglob("*"),
        *run_folder.parent.glob("*game-day*"),
        *run_folder.glob("game-day*"),
    ]


def asking(verb: str = "fork") -> Asking:
    return Asking(verb, (), "ann", lambda *words: " ".join(words), reason="game day")


def drivers_of(patient: Patient) -> Iterator[str]:
    """Yield command lines of drivers of this project that run."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(patient.drivers.folder) in words and "--run-id" in words:
            yield " ".join(words)


def test_each_drill_recovers_is_measured_and_leaves_nothing_but_its_row(patient: Patient) -> None:
    patient.ran(3).has_broker()
    before, ids = files_of(patient), patient.ids()
    drills = ("kill", "drain", "rewind", "restore")
    asked = [word for drill in drills for word in ("--drill", drill)]
    day = patient.tidemill.json(*PLAYED, *asked, "--by", "ann")
    assert [(result["drill"], result["outcome"]) for result in day["results"]] == [
        (drill, "recovered") for drill in ("start", *drills)
    ], day
    assert all(0 < result["seconds"] < 60 for result in day["results"])
    assert (files_of(patient), patient.ids()) == (before, ids)
    assert (left_over(patient), list(drivers_of(patient))) == ([], [])

    kept = patient.tidemill.json("gameday", "show", "orders")
    assert {(row["drill"], row["outcome"], row["by"], row["run_id"]) for row in kept} == {
        (drill, "recovered", "ann", day["run_id"]) for drill in ("start", *drills)
    }
    # The live pipeline continues.
    patient.went_on()
    assert patient.ids() == list(range(40))


def test_in_a_pod_it_leaves_its_answer_on_storage_and_nothing_in_the_project(patient: Patient) -> None:
    """Run the program as in a pod, where it cannot write to the project."""
    patient.ran(2).has_broker()
    before, ids = files_of(patient), patient.ids()
    drivers, pipeline = patient.drivers, patient.pipeline
    words = ("--request", "day-1", "--by", "ann", "--drill", "kill")
    run = DriverRun("orders", "aside", "game_day-1", words, "game_day")
    command = driver_command(drivers.environment, run)
    pod = dict.fromkeys(POD_VARIABLES, "orders-1f2e3d4c-x")
    variables = {**drivers.variables, **pod}
    done = run_forked(command, env=variables)
    assert done.returncode == 0, done.stderr
    assert "kill: recovered after" in done.stdout
    found = read_part_result(patient.plane.store, pipeline.layout, "orders", "game_day-1")
    assert found is not None
    day = TypeAdapter(GameDay).validate_python(found.answer)
    assert (day.run_id, day.by) == ("day-1", "ann")
    assert [(result.drill, result.outcome) for result in day.results] == [
        ("start", "recovered"),
        ("kill", "recovered"),
    ]
    Path(pipeline.layout.parts("orders"), "game_day-1.json").unlink()
    assert (files_of(patient), patient.ids()) == (before, ids)
    assert (left_over(patient), list(drivers_of(patient))) == ([], [])


def test_a_game_day_that_is_played_again_after_it_failed_is_kept_too(patient: Patient) -> None:
    """A cleared task requests the game day in the name of the same DAG run."""
    layout = patient.ran(1).pipeline.layout
    outcomes: tuple[Outcome, ...] = ("failed", "recovered")
    for outcome in outcomes:
        drill = DrillResult("kill", outcome, 9.5, "batch 7")
        keep(layout, GameDay("orders", "day-1", datetime.now(UTC), "ann", (drill,)))
    assert [row["outcome"] for row in newest(layout, "orders")] == ["recovered", "failed"]


def test_what_a_killed_game_day_has_left_goes_before_the_next_copy_is_made(patient: Patient) -> None:
    patient.ran(2).has_broker()
    killed = copied(patient.pipeline, asking())
    copy = killed.__enter__()
    # The block never ends, but the lock is released when the process ends.
    lock = copy.pipeline.environment.run_folder / "game_day.lock"
    lock.unlink()
    assert list(Path(copy.pipeline.layout.root).rglob("*"))
    day = patient.tidemill.json(*PLAYED, "--drill", "drain")
    assert [result["outcome"] for result in day["results"]] == ["recovered", "recovered"]
    assert left_over(patient) == []


def test_two_game_days_of_one_pipeline_are_not_played_at_once(patient: Patient) -> None:
    patient.ran(2).has_broker()
    with copied(patient.pipeline, asking()) as copy:
        with pytest.raises(UnavailableError) as refused:
            copied(patient.pipeline, asking()).__enter__()
        assert refused.value.error_id == "TIDE-CTRL-092"
        assert Path(copy.pipeline.layout.table("bronze/orders")).exists()


def test_a_drill_that_fails_is_kept_and_ends_the_game_day(patient: Patient) -> None:
    patient.ran(2).has_broker()
    patient.drivers.behave("orders", "exit 65")
    assert patient.tidemill(*PLAYED, "--json") == 1
    (result,) = json.loads(patient.tidemill.out)["results"]
    assert (result["drill"], result["outcome"]) == ("start", "failed")
    assert [row["outcome"] for row in patient.tidemill.json("gameday", "show")] == ["failed"]
    assert left_over(patient) == []


def test_nothing_is_played_in_a_protected_environment(patient: Patient) -> None:
    patient.ran(2)
    patient.drivers.environ('root: .data\nprotected: true\nkafka: {bootstrap_servers: "localhost:1"}\n')
    with pytest.raises(GateRefusedError) as refused:
        copied(patient.pipeline, asking()).__enter__()
    assert refused.value.error_id == "TIDE-CTRL-090"
    assert patient.tidemill(*PLAYED) == 1
    assert "TIDE-CTRL-090" in patient.tidemill.err
    assert left_over(patient) == []


@pytest.mark.parametrize(
    "hostile", ["../../etc", "kill; rm -rf /", "{{ 7*7 }}", "$(id)", "k" * 10_000, "kill\nkill", ""]
)
def test_an_unknown_drill_is_refused(hostile: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_drills(["kill", hostile])
    assert refused.value.error_id == "TIDE-CTRL-093"
    assert len(str(refused.value.facts["drill"])) <= 82


def test_drills_are_done_in_their_order_and_all_without_a_choice() -> None:
    assert check_drills(["restore", "kill"]) == ("kill", "restore")
    assert check_drills([]) == ("kill", "drain", "rewind", "restore", "backfill")


TOPIC: dict[str, Any] = {"source": {"kafka": {"topic": "orders"}}}
TO_TABLE = [{"delta": {"table": "bronze/orders"}}]


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (TOPIC | {"sinks": TO_TABLE}, ""),
        (TOPIC | {"sinks": [*TO_TABLE, {"kafka": {"topic": "alerts"}}]}, "write to kafka"),
        (TOPIC | {"sinks": TO_TABLE, "run": {"mode": "incremental"}}, "no stream but incremental"),
        ({"source": {"delta": {"table": "bronze/raw"}}, "sinks": TO_TABLE}, "delta cannot be read by two"),
        (
            {"source": {"files": {"path": "in", "format": "text"}}, "sinks": TO_TABLE},
            "would not have its files",
        ),
        ({"source": {"files": {"path": "s3a://a/in", "format": "text"}}, "sinks": TO_TABLE}, ""),
        (
            {
                "source": {"kafka": {"topic": "orders", "options": {"kafka.group.id": "orders"}}},
                "sinks": TO_TABLE,
            },
            "in the same consumer group",
        ),
        ({"source": {"rate": {}}, "sinks": TO_TABLE}, "rate cannot be read by two"),
    ],
)
def test_only_what_a_copy_shares_with_nothing_can_be_played(
    tmp_path: Path, keys: dict[str, Any], reason: str
) -> None:
    found = why_not(declared(tmp_path, "orders", **keys))
    assert bool(found) == bool(reason)
    assert reason in " ".join(found)


@pytest.mark.parametrize("inside", ["", "tables"])
def test_a_link_in_the_place_of_the_copy_deletes_nothing_live(patient: Patient, inside: str) -> None:
    patient.ran(2).has_broker()
    before, root = files_of(patient), Path(patient.pipeline.layout.root)
    link = root / "game_days/orders" / inside
    link.parent.mkdir(parents=True)
    link.symlink_to(root / inside if inside else root)
    with pytest.raises(GateRefusedError) as refused:
        copied(patient.pipeline, asking()).__enter__()
    assert refused.value.error_id == "TIDE-CTRL-094"
    assert files_of(patient) == before


def test_a_pipeline_that_cannot_be_copied_is_refused_and_nothing_is_written(patient: Patient) -> None:
    patient.ran(2, ORDERS + "  - kafka: {topic: alerts, key: id}\n")
    before = files_of(patient)
    with pytest.raises(UsageError) as refused:
        copied(patient.pipeline, asking()).__enter__()
    assert refused.value.error_id == "TIDE-CTRL-091"
    assert (files_of(patient), left_over(patient)) == (before, [])
