"""A user's request about one stream, such as a start or a stop; the same for command line and DAG.

`begin` may be called any number of times for one request. It does the next missing step and returns the goal
to wait for. So a task that is retried or cleared starts no second driver and stops no newer one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from tidemill.airflow_names import incremental_dag_id
from tidemill.checkpoint.desired import Desired, read_desired, write_desired
from tidemill.control.ask.goal import Goal, prove
from tidemill.control.ask.proof import Proof
from tidemill.control.decide.suspension import check_suspendable, check_until
from tidemill.control.decide.visit import start_stream
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import StartedDriver
from tidemill.control.upgrade_check import begin_planning, renew_planning, verdict_so_far
from tidemill.errors import GateRefusedError, UsageError
from tidemill.spec.project import Pipeline, resolve_pipeline

Verb = Literal["start", "stop", "restart", "suspend", "resume"]
State = Literal["running", "stopped", "suspended"]

_STATES: dict[Verb, State] = {"stop": "stopped", "suspend": "suspended"}

# Seconds between two checks of a waiting command. A check reads one small file.
POLL_SECONDS = 0.25


@dataclass(frozen=True)
class StreamRequest:
    """A request with requester, time and reason.

    Args:
        pipeline: The stream.
        verb: The action.
        run_id: Id of the request, and of the driver that it starts.
        at: Time of the request. The request with the latest time wins, in any order of execution.
        by: The requester.
        reason: The reason.
        until: Time at which a suspension ends by itself; None if it lasts until it is resumed.
    """

    pipeline: str
    verb: Verb
    run_id: str
    at: datetime
    by: str
    reason: str = ""
    until: datetime | None = None

    @property
    def state(self) -> State:
        """Return the desired state."""
        return _STATES.get(self.verb, "running")


def _tell_nobody(_: str) -> None: ...


def begin(
    plane: ControlPlane,
    request: StreamRequest,
    tell: Callable[[str], None] = _tell_nobody,
    after: Goal | None = None,
) -> Goal:
    """Do the next step of a request; `tell` receives messages about long steps.

    1. If a driver must be replaced by another version, ask the upgrade gate. If Spark must plan the version
    first, start the planning and return the goal `planned`; nothing else is done. 2. Write the desired state,
    unless a later request exists. 3. Drain a driver that must end. 4. Start a driver if none runs and one
    should.

    Args:
        plane: The control plane.
        request: The request.
        tell: Receives messages.
        after: Reached goal of the previous step; None at the beginning of a try.

    Raises:
        GateRefusedError: If another control plane owns the storage root, or if the gate refuses the new
            version. Then the old version continues and nothing was changed.
        SpecError: If the declaration is wrong; nothing was changed.
        UsageError: TIDE-CTRL-006 if the pipeline is not a stream, TIDE-CTRL-007 if a later request exists,
            TIDE-CTRL-020 if the end of a suspension is not usable, TIDE-CTRL-021 if a stopped stream is to be
            suspended or resumed.
        UnavailableError: If the new version could not be checked; nothing was changed.
    """
    check_until(request.verb, request.until, datetime.now(UTC))
    pipeline = None if request.verb == "stop" else _stream(plane, request)
    plane.own()
    anew = after is None or after.kind != "planned"
    if pipeline is not None and not _may_take_over(plane, pipeline, request, anew=anew):
        tell("asking the upgrade gate whether the new version can take over; the old one runs meanwhile")
        return Goal(pipeline=request.pipeline, kind="planned", final=False, slot="verb")
    _write_wish(plane, request, pipeline)
    return _bring_about(plane, request, pipeline)


def _bring_about(plane: ControlPlane, request: StreamRequest, pipeline: Pipeline | None) -> Goal:
    """Drain a driver that must end; start one if none runs and one should."""
    driver = plane.running(request.pipeline)
    if request.state != "running":
        _stop(plane, request.pipeline, driver)
        return Goal(pipeline=request.pipeline, kind="stopped", until=request.until)
    if driver is not None and _must_go(driver, request):
        plane.runtime.drain(driver)
        return Goal(pipeline=request.pipeline, kind="stopped", final=False)
    if driver is None and pipeline is not None:
        start_stream(plane, pipeline, request.run_id)
    started_after = request.at if request.verb == "restart" else None
    return Goal(pipeline=request.pipeline, kind="progress", started_after=started_after)


def end_overdue(plane: ControlPlane, goal: Goal) -> Goal:
    """Kill a driver that does not drain, and return the goal to wait for, because a kill takes time."""
    driver = plane.running(goal.pipeline)
    if driver is None or not driver.is_overdue(datetime.now(UTC), plane.environment.spec.grace_period):
        return goal
    plane.own()
    plane.runtime.kill(driver)
    return goal.model_copy(update={"killed_drain": driver.drain_requested_at})


def carry_out(
    plane: ControlPlane, request: StreamRequest, timeout_seconds: float, tell: Callable[[str], None]
) -> Proof:
    """Carry out a request and wait for its proof; `tell` receives each new state once.

    The timeout begins after Spark has planned the new version; planning has its own limit.
    """
    goal, told = begin(plane, request, tell), ""
    deadline = _deadline(plane, goal, timeout_seconds)
    while True:
        proof = prove(plane, goal)
        if proof.state == "overdue":
            goal = end_overdue(plane, goal)
        elif proof.state == "done" and not goal.final:
            before, goal = goal, begin(plane, request, tell, goal)
            if before.kind == "planned":
                deadline = _deadline(plane, goal, timeout_seconds)
        elif proof.state != "pending":
            return proof
        if time.monotonic() >= deadline:
            seconds = _seconds(plane, goal, timeout_seconds)
            return Proof("failed", f"no proof within {seconds:.0f} s: {proof.message}", proof.evidence)
        if proof.message != told:
            tell(told := proof.message)
        time.sleep(POLL_SECONDS)


def _deadline(plane: ControlPlane, goal: Goal, timeout_seconds: float) -> float:
    return time.monotonic() + _seconds(plane, goal, timeout_seconds)


def _seconds(plane: ControlPlane, goal: Goal, timeout_seconds: float) -> float:
    """Return the timeout; planning gets at least its own limit, within which a stuck job is ended."""
    patience = goal.patience(plane) if goal.kind == "planned" else None
    return timeout_seconds if patience is None else max(timeout_seconds, patience.total_seconds())


def _may_take_over(plane: ControlPlane, pipeline: Pipeline, request: StreamRequest, *, anew: bool) -> bool:
    """Return True if the driver may be replaced; a refused version must not stop the running one.

    A driver that already drains may always be replaced.

    Args:
        plane: The control plane.
        pipeline: The declared version.
        request: The request.
        anew: True to let Spark repeat a plan that failed before.

    Returns:
        False while Spark still plans the version.

    Raises:
        GateRefusedError: The gate's finding.
        TidemillError: The error of Spark's planning.
    """
    driver = plane.running(request.pipeline)
    if request.verb != "restart" or driver is None or driver.drain_requested_at is not None:
        return True
    if not _must_go(driver, request):
        return True
    if driver.digest == pipeline.version_digest:
        return True
    if anew:
        renew_planning(plane, pipeline)
    verdict = verdict_so_far(plane, pipeline)
    if verdict is None:
        begin_planning(plane, pipeline, again=anew)
        return False
    if verdict.objection is not None:
        objection = verdict.objection
        raise GateRefusedError(
            objection.finding_id,
            f"{objection.problem} The old version runs on; nothing was changed.",
            facts={**objection.facts, "running": driver.run_id},
            fix=objection.fix,
            runbook=objection.runbook or "upgrade",
        )
    return True


def _stop(plane: ControlPlane, pipeline: str, driver: StartedDriver | None) -> None:
    if driver is not None:
        plane.runtime.drain(driver)
    elif (ended := plane.runtime.last_start(pipeline)) is not None and not ended.alive:
        plane.runtime.put_away(ended)


def _must_go(driver: StartedDriver, request: StreamRequest) -> bool:
    """Return True if a start or restart has to wait for the end of the running driver.

    A restart compares the time of the decision and not of the process, because the runtime may start the old
    driver again.
    """
    return driver.drain_requested_at is not None or (
        request.verb == "restart" and driver.claimed_at < request.at
    )


def _stream(plane: ControlPlane, request: StreamRequest) -> Pipeline:
    name = request.pipeline
    pipeline = resolve_pipeline(plane.environment, name)
    if pipeline.spec.run.mode != "stream":
        once = f"run it once: tidemill run {name} --mode {pipeline.spec.run.mode}"
        paused = f"pause or un-pause its DAG {incremental_dag_id(name)} in Airflow"
        raise UsageError(
            "TIDE-CTRL-006",
            "This pipeline is not a stream.",
            facts={"pipeline": name, "mode": pipeline.spec.run.mode},
            fix=paused if request.verb in ("suspend", "resume") else once,
        )
    return pipeline


def _write_wish(plane: ControlPlane, request: StreamRequest, pipeline: Pipeline | None) -> None:
    standing = read_desired(plane.store, plane.layout, request.pipeline)
    if standing is not None and standing.stands_since >= request.at:
        if (standing.by, standing.state, standing.until) == (request.by, request.state, request.until):
            return
        raise UsageError(
            "TIDE-CTRL-007",
            "A later request about this stream stands; this one was not carried out.",
            facts={
                "pipeline": request.pipeline,
                "asked_at": request.at,
                "standing": standing.state,
                "by": standing.by,
            },
            fix="ask anew if you still want it",
        )
    if request.verb in ("suspend", "resume"):
        by_hand = pipeline is not None and not pipeline.spec.is_replayable
        check_suspendable(request.pipeline, request.verb, standing, by_hand=by_hand)
    desired = Desired(
        state=request.state,
        by=request.by,
        asked_at=request.at,
        reason=request.reason,
        until=request.until,
    )
    write_desired(plane.store, plane.layout, request.pipeline, desired)
