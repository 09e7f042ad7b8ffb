"""One visit of one stream: look, decide, act. Errors affect only this stream."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from tidemill.control.ask.run_id import new_run_id
from tidemill.control.decide.endings import Ending, is_status_of
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.kept_version import packed, unpacked
from tidemill.control.decide.planning_room import PlanningRoom
from tidemill.control.decide.progress import Stall, stall_of
from tidemill.control.decide.reconcile import Action, Decision, Reconciler
from tidemill.control.decide.remembered import remembered_in
from tidemill.control.decide.restart_policy import RestartBudget, budget_of
from tidemill.control.decide.rollback import Rollback
from tidemill.control.decide.side_by_side import IsLate
from tidemill.control.decide.stream_facts import gather_stream_facts
from tidemill.control.decide.turn_of_streams import WaveOnDemand
from tidemill.control.driver_command import DriverRun
from tidemill.control.local.driver_record import machine_trouble
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import MainSlot, StartedDriver
from tidemill.control.upgrade_check import begin_planning
from tidemill.engine.classify import classify
from tidemill.errors import InternalError, TidemillError, UnavailableError
from tidemill.spec.project import Pipeline, resolve_pipeline

# Maximum tries to read from storage and API server in one visit, and seconds between them. Most errors are
# over by then.
LOOKS = 3
PAUSE_SECONDS = 1.0

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """Result of a visit.

    Args:
        pipeline: The visited pipeline.
        decision: The decision.
        driver: The driver that runs afterwards.
        stall: Reason why the stream makes no progress although it should.
        wanted: True if it should run; None if that is unknown.
        budget: Its restart budget; None if that is unknown.
    """

    pipeline: str
    decision: Decision
    driver: StartedDriver | None = None
    stall: Stall | None = None
    wanted: bool | None = None
    budget: RestartBudget | None = None


@dataclass(frozen=True)
class Visitor:
    """Visits streams.

    Args:
        plane: The control plane.
        reconciler: Makes the decisions.
        wave: Number of streams that may still get a new version.
        room: Number of Spark plans that may still be started.
        clock: Returns the current time.
    """

    plane: ControlPlane
    reconciler: Reconciler
    wave: WaveOnDemand
    room: PlanningRoom
    clock: Callable[[], datetime]

    def visit(self, name: str, slot: MainSlot | TidemillError, is_late: IsLate) -> list[Outcome]:
        """Bring one stream closer to its desired state; do nothing if the pipeline is not a stream."""
        try:
            facts = insist(lambda: gather_stream_facts(self.plane, name, self.clock(), slot))
            if facts.mode == "incremental" and facts.running is None:
                return []
            decision = self._in_turn(name, self.reconciler.decide(facts))
            # The result is no longer used, and the next visit may have made another decision.
            if is_late():
                return []
            done = self._do(facts, decision)
            _keep_version(self.plane, facts)
            return [replace(done, stall=stall_of(facts), wanted=facts.is_wanted, budget=self._budget(facts))]
        except Exception as error:  # noqa: BLE001  # an entry point; the other pipelines must be visited
            return [Outcome(name, undecided(problem_of(error)))]

    def _do(self, facts: Facts, decision: Decision) -> Outcome:
        if decision.action == "plan":
            return _have_planned(self.plane, self.room, facts, decision)
        return _carry_out(self.plane, facts, decision)

    def _budget(self, facts: Facts) -> RestartBudget:
        return budget_of(facts.counted_endings, facts.now, self.reconciler.policy)

    def _in_turn(self, name: str, decision: Decision) -> Decision:
        if not decision.replaces or self.wave.now().takes(name):
            return decision
        return Decision("leave", f"its version changed; it waits for its turn: {self.wave.now().why_not}")


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def insist(look: Callable[[], T]) -> T:
    """Repeat a read after a pause if storage or API server does not answer.

    Raises:
        TidemillError: The last error, or an error that a repetition cannot fix.
    """
    for left in reversed(range(LOOKS)):
        try:
            return look()
        except Exception as error:  # noqa: BLE001  # raised again below
            problem = problem_of(error)
            if not left or not isinstance(problem, UnavailableError):
                raise problem from (None if problem is error else error)
        time.sleep(PAUSE_SECONDS)
    raise InternalError("TIDE-CTRL-013", "Nothing was looked at.")


def problem_of(error: Exception) -> TidemillError:
    """Return the error; one of the machine itself, such as of a network mount, may be temporary."""
    return machine_trouble(error) if isinstance(error, OSError) else classify(error)


def undecided(error: TidemillError) -> Decision:
    """Return the decision after an error: `unseen` if a service does not answer, else `failed`."""
    action: Action = "unseen" if isinstance(error, UnavailableError) else "failed"
    return Decision(action, str(error), runbook=error.runbook)


def start_stream(plane: ControlPlane, pipeline: Pipeline, run_id: str) -> StartedDriver:
    """Start the driver of a stream unless one runs; first store how the previous one ended.

    Raises:
        TidemillError: The reason why the start failed, which is also stored.
    """
    name, digest = pipeline.name, pipeline.version_digest
    ending = plane.last_ending(name)
    if ending is not None:
        plane.history(name).note(ending)
    try:
        runtime = plane.runtime.of(pipeline.environment)
        return runtime.start(DriverRun(name, "stream", run_id, dag_run=plane.dag_run), digest).driver
    except TidemillError as error:
        # If it cannot be stored now, the remaining claim without a driver shows it later.
        with contextlib.suppress(TidemillError, OSError):
            plane.history(name).note(_not_made(plane, name, run_id, digest, error))
        raise


def _not_made(plane: ControlPlane, pipeline: str, run_id: str, digest: str, error: TidemillError) -> Ending:
    """Return the ending of a driver that was never created, with the run id of its claim."""
    claim = plane.runtime.last_start(pipeline)
    is_own = claim is not None and claim.run_id == run_id
    at = claim.started_at if claim is not None and is_own else utc_now()
    return Ending(
        run_id=run_id,
        digest=digest,
        started_at=at,
        ended_at=at,
        result="not_made",
        error=error.as_document(),
    )


def _carry_out(plane: ControlPlane, facts: Facts, decision: Decision) -> Outcome:
    if decision.action != "start":
        return Outcome(facts.pipeline, decision, _act_on_driver(plane, facts, decision))
    try:
        driver = _start(plane, facts)
    except Exception as error:  # noqa: BLE001  # any error means that the driver was not started
        problem = problem_of(error)
        failed = replace(decision, action="failed", reason=str(problem), runbook=problem.runbook)
        return Outcome(facts.pipeline, failed)
    return Outcome(facts.pipeline, decision, driver)


def _start(plane: ControlPlane, facts: Facts) -> StartedDriver:
    """Start a driver of the declared version, or of the version before it after a rollback."""
    name, run_id = facts.pipeline, new_run_id("stream", facts.now)
    if facts.rollback is None:
        return start_stream(plane, resolve_pipeline(plane.environment, name), run_id)
    kept = remembered_in(plane.runtime.memory(name).read()).kept
    if kept is None or kept.digest != facts.digest:
        raise InternalError("TIDE-CTRL-005", "A start was decided of a version that is not kept.")
    with unpacked(plane.environment, name, kept) as pipeline:
        return start_stream(plane, pipeline, run_id)


def _keep_version(plane: ControlPlane, facts: Facts) -> None:
    """Store the declared version after its first batch; without it there is no rollback."""
    driver, name = facts.running, facts.pipeline
    if driver is None or driver.mode != "stream" or facts.digest in (None, facts.kept):
        return
    status = facts.newest_status
    if driver.digest != facts.digest or status is None or not is_status_of(status, driver):
        return
    if status.batch_committed_at is None:
        return
    with contextlib.suppress(TidemillError, OSError):
        pipeline = resolve_pipeline(plane.environment, name)
        version = packed(pipeline, facts.now) if pipeline.version_digest == driver.digest else None
        if version is not None:
            plane.history(name).keep(version)


def _have_planned(plane: ControlPlane, room: PlanningRoom, facts: Facts, decision: Decision) -> Outcome:
    try:
        pipeline = resolve_pipeline(plane.environment, facts.pipeline)
        if not room.begin(lambda: begin_planning(plane, pipeline)):
            reason = "its version changed; it waits for its turn: Spark plans those of others"
            return Outcome(facts.pipeline, Decision("leave", reason), facts.running)
    except Exception as error:  # noqa: BLE001  # the old version continues after any error
        problem = problem_of(error)
        failed = replace(decision, action="failed", reason=str(problem), runbook=problem.runbook)
        return Outcome(facts.pipeline, failed, facts.running)
    return Outcome(facts.pipeline, decision, facts.running)


def _act_on_driver(plane: ControlPlane, facts: Facts, decision: Decision) -> StartedDriver | None:
    driver = facts.running
    if decision.action == "return":
        _give_up(plane, facts, decision)
    match decision.action:
        case "stop" | "return" if driver is not None:
            plane.runtime.drain(driver)
        case "kill" if driver is not None:
            plane.runtime.kill(driver)
            return None
        case "leave" | "failed" if driver is not None and driver.drain_requested_at is not None:
            # A previous request may have failed halfway, when it was recorded but not sent to the driver.
            plane.runtime.drain(driver)
        case "leave" | "refused" | "hold" | "return" if facts.ended is not None:
            plane.runtime.put_away(facts.ended)
        case "wait" if facts.ended is not None and facts.holds:
            plane.runtime.put_away(facts.ended)
    return driver


def _give_up(plane: ControlPlane, facts: Facts, decision: Decision) -> None:
    """Store the rollback first, so that the next visit starts the previous version even if this one fails."""
    if facts.digest is None or facts.back_to is None:
        raise InternalError("TIDE-CTRL-005", "A version was given up, and there is none before it.")
    note = Rollback(version=facts.digest, to=facts.back_to, at=facts.now, why=decision.given_up)
    plane.history(facts.pipeline).note_rollback(note)
