"""The upgrade gate is asked before a stream is replaced; Spark's part has prepared answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support.eventually import eventually
from tests.support.fake_part import fake_part_command
from tests.support.golden_patient import DECLARATION, NAME, ran_windowed
from tests.support.patient import Patient
from tests.support.patient_fixtures import patient
from tests.support.small_project import ENVIRONMENT
from tidemill.checkpoint.desired import read_desired
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.version import KeptState, PlannedVersion, kept_in
from tidemill.control.ask.goal import prove
from tidemill.control.ask.proof import Proof
from tidemill.control.ask.stream_request import StreamRequest, begin, carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.visit import Outcome
from tidemill.control.local.local_runtime import LocalRuntime
from tidemill.control.plane import ControlPlane
from tidemill.control.spark_part import begin_part
from tidemill.errors import GateRefusedError, UnavailableError

__all__ = ["patient"]

OTHER_TRIGGER = DECLARATION.replace("run: {", "run: {trigger: 7 seconds, ")


class Upgraded:
    """A running stream with real state, which is deployed with another trigger."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.told: list[str] = []
        patient.drivers.environ(f"{ENVIRONMENT}\non_change: restart\n")
        ran_windowed(patient)
        (self.state,) = kept_in(CheckpointReader(patient.plane.store, str(patient.state / "g0001")))
        patient.drivers.behave(NAME, "idle")
        assert self.visit().decision.action == "start"
        eventually(lambda: self.driver() is not None, "the old version runs")
        self.old = self.driver()
        patient.declare(OTHER_TRIGGER, NAME)

    def plane(self) -> ControlPlane:
        drivers = self.patient.drivers
        runtime = LocalRuntime(drivers.environment, fake_part_command, drivers.variables)
        return ControlPlane(drivers.environment, self.patient.plane.store, runtime)

    def visit(self) -> Outcome:
        (outcome,) = reconcile_streams(self.plane())
        return outcome

    def driver(self) -> str | None:
        running = self.plane().running(NAME)
        return None if running is None else running.run_id

    def restart(self, run_id: str) -> Proof:
        """Request a restart as a user does."""
        return carry_out(self.plane(), restart_request(run_id), 60, self.told.append)

    def parts(self) -> int:
        """Return the number of Spark parts that ran."""
        runs = self.patient.drivers.folder / "behaviour" / "part.runs"
        return len(runs.read_text().splitlines())

    def spark_says(self, *operators: KeptState) -> None:
        version = PlannedVersion(operators=operators).model_dump(mode="json")
        (self.patient.drivers.folder / "behaviour" / "part.json").write_text(json.dumps(version))

    def planned(self) -> Outcome:
        """Return the outcome of the visit that finds Spark's answer."""
        assert self.visit().decision.action == "plan"
        eventually(lambda: self.plane().running(NAME, "verb") is None, "the part ends")
        return self.visit()


def restart_request(run_id: str) -> StreamRequest:
    return StreamRequest(NAME, "restart", run_id, datetime.now(UTC), "somebody")


@pytest.fixture
def upgraded(patient: Patient) -> Iterator[Upgraded]:
    yield Upgraded(patient)
    patient.drivers.end_all()


def test_a_version_takes_over_once_spark_has_planned_it(upgraded: Upgraded) -> None:
    upgraded.spark_says(upgraded.state)
    assert upgraded.planned().decision.action == "stop"
    eventually(lambda: upgraded.driver() is None, "the old version drains")
    assert upgraded.visit().decision.action == "start"


def test_a_version_that_would_keep_other_state_never_takes_over(upgraded: Upgraded) -> None:
    upgraded.spark_says()
    for outcome in (upgraded.planned(), upgraded.visit()):
        assert (outcome.decision.action, outcome.decision.runbook) == ("refused", "upgrade")
        assert "TIDE-CTRL-080" in outcome.decision.reason
        assert upgraded.driver() == upgraded.old


def test_while_spark_plans_the_old_version_runs_and_nothing_is_planned_twice(upgraded: Upgraded) -> None:
    upgraded.patient.drivers.hold_back("part")
    assert [upgraded.visit().decision.action for _ in range(3)] == ["plan"] * 3
    assert upgraded.driver() == upgraded.old
    runs = upgraded.patient.drivers.folder / "behaviour" / "part.runs"
    eventually(runs.exists, "the part is at work")
    assert upgraded.parts() == 1
    upgraded.patient.drivers.let_go("part")


def test_a_part_that_is_cut_short_is_told_and_not_begun_again_at_once(upgraded: Upgraded) -> None:
    upgraded.patient.drivers.behave("part", "die")
    assert upgraded.visit().decision.action == "plan"
    eventually(lambda: upgraded.plane().running(NAME, "verb") is None, "the part ends")
    outcome = upgraded.visit()
    assert (outcome.decision.action, outcome.decision.runbook) == ("failed", "spark-part-failed")
    assert upgraded.driver() == upgraded.old
    assert upgraded.parts() == 1


def test_a_restart_with_a_version_that_would_be_refused_leaves_the_old_one_at_work(
    upgraded: Upgraded,
) -> None:
    upgraded.spark_says()
    plane = upgraded.plane()
    wished = read_desired(plane.store, plane.layout, NAME)
    with pytest.raises(GateRefusedError) as refused:
        upgraded.restart("restarted")
    assert (refused.value.error_id, refused.value.runbook) == ("TIDE-CTRL-080", "upgrade")
    assert read_desired(plane.store, plane.layout, NAME) == wished
    driver = plane.running(NAME)
    assert driver is not None
    assert (driver.run_id, driver.drain_requested_at) == (upgraded.old, None)
    assert refused.value.facts["running"] == upgraded.old


def test_a_restart_with_a_version_that_can_go_on_is_carried_out_and_the_next_asks_nobody(
    upgraded: Upgraded,
) -> None:
    upgraded.spark_says(upgraded.state)
    assert upgraded.restart("restarted").state == "done"
    assert upgraded.driver() == "restarted"
    assert "asking the upgrade gate" in upgraded.told[0]
    upgraded.told.clear()
    # Now it is the same version.
    assert upgraded.restart("again").state == "done"
    assert upgraded.driver() == "again"
    assert "asking" not in " ".join(upgraded.told)
    assert upgraded.parts() == 1


def test_a_restart_waits_for_spark_without_a_worker_and_has_changed_nothing_by_then(
    upgraded: Upgraded,
) -> None:
    upgraded.spark_says(upgraded.state)
    upgraded.patient.drivers.hold_back("part")
    plane, request = upgraded.plane(), restart_request("restarted")
    wished = read_desired(plane.store, plane.layout, NAME)
    for _ in range(2):
        goal = begin(plane, request)
        assert (goal.kind, goal.final, prove(plane, goal).state) == ("planned", False, "pending")
    assert (upgraded.driver(), read_desired(plane.store, plane.layout, NAME)) == (upgraded.old, wished)
    upgraded.patient.drivers.let_go("part")
    eventually(lambda: prove(plane, goal).state == "done", "Spark has planned it")
    assert upgraded.parts() == 1
    assert begin(plane, request, after=goal).kind == "stopped"
    assert carry_out(plane, request, 60, upgraded.told.append).state == "done"
    assert upgraded.driver() == "restarted"


def test_a_restart_whose_plan_is_cut_short_fails_and_the_next_try_asks_spark_again(
    upgraded: Upgraded,
) -> None:
    upgraded.patient.drivers.behave("part", "die")
    plane, request = upgraded.plane(), restart_request("restarted")
    with pytest.raises(UnavailableError) as cut_short:
        carry_out(plane, request, 60, upgraded.told.append)
    assert cut_short.value.error_id == "TIDE-CKPT-077"
    assert upgraded.driver() == upgraded.old
    upgraded.patient.drivers.behave("part", "answer")
    upgraded.spark_says(upgraded.state)
    assert carry_out(plane, request, 60, upgraded.told.append).state == "done"
    assert (upgraded.driver(), upgraded.parts()) == ("restarted", 2)


def test_a_restart_waits_for_another_part_of_the_pipeline(upgraded: Upgraded) -> None:
    upgraded.spark_says(upgraded.state)
    upgraded.patient.drivers.hold_back("part")
    plane, request = upgraded.plane(), restart_request("restarted")
    begin_part(plane, upgraded.patient.pipeline, "verify", ["--last", "7"])
    goal = begin(plane, request)
    assert (goal.kind, prove(plane, goal).state) == ("planned", "pending")
    upgraded.patient.drivers.let_go("part")
    assert carry_out(plane, request, 60, upgraded.told.append).state == "done"
    assert (upgraded.driver(), upgraded.parts()) == ("restarted", 2)
