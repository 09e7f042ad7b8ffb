"""A person's request about one stream, such as a start or a stop; the same for command line and DAG.

`begin` may be called any number of times for one request: it does what is still to be done and says what to
wait for. So a task that is retried, or cleared, starts no second driver and stops none that is newer.
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

# Seconds between two looks of a waiting command. A look reads one small file.
POLL_SECONDS = 0.25


@dataclass(frozen=True)
class StreamRequest:
    """What is asked, by whom, when and why.

    Args:
        pipeline: Which stream.
        verb: What to do.
        run_id: Names the request, and the driver that it starts.
        at: When it was asked; what someone else has asked later wins, whichever is carried out first.
        by: Who asks.
        reason: Why.
        until: When a suspension ends by itself; None: when someone ends it.
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
        """What should be."""
        return _STATES.get(self.verb, "running")


def _tell_nobody(_: str) -> None: ...


def begin(
    plane: ControlPlane,
    request: StreamRequest,
    tell: Callable[[str], None] = _tell_nobody,
    after: Goal | None = None,
) -> Goal:
    """Do the next step of a request; `tell` hears what takes long.

    1. If a driver must go for another version, ask the upgrade gate. Where Spark must plan it first, that is
    begun and is to be waited for, and nothing else is done. 2. Write the wish, unless a later one stands. 3.
    Drain a driver that must go. 4. Start one if none runs and one should.

    Args:
        plane: Where.
        request: What is asked.
        tell: Hears of it.
        after: The goal of the step before, proven; None at the beginning of a try.

    Raises:
        GateRefusedError: If the storage root is another control plane's; if the new version cannot take
            over, with the gate's finding: the old one runs on, and nothing was changed.
        SpecError: If the declaration is wrong; nothing was changed.
        UsageError: TIDE-CTRL-006 if the pipeline is no stream, TIDE-CTRL-007 if a later wish stands,
            TIDE-CTRL-020 if a suspension's moment is of no use, TIDE-CTRL-021 if someone has stopped what
            is to be suspended or resumed.
        UnavailableError: If the new version could not be looked at; nothing was changed.
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
    """Drain a driver that must go; start one if none runs and one should."""
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
    """Kill a driver that does not drain; returns the goal to go on with: a kill is asked, not yet an end."""
    driver = plane.running(goal.pipeline)
    if driver is None or not driver.is_overdue(datetime.now(UTC), plane.environment.spec.grace_period):
        return goal
    plane.own()
    plane.runtime.kill(driver)
    return goal.model_copy(update={"killed_drain": driver.drain_requested_at})


def carry_out(
    plane: ControlPlane, request: StreamRequest, timeout_seconds: float, tell: Callable[[str], None]
) -> Proof:
    """Carry out a request and wait for its proof; `tell` hears each new state once.

    The time begins once Spark has planned the version that is to take over, which has a time of its own.
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
    """A part that cannot start is known as such, and ended, after minutes."""
    patience = goal.patience(plane) if goal.kind == "planned" else None
    return timeout_seconds if patience is None else max(timeout_seconds, patience.total_seconds())


def _may_take_over(plane: ControlPlane, pipeline: Pipeline, request: StreamRequest, *, anew: bool) -> bool:
    """Let no driver go for a version that would then be refused; one that drains is on its way out.

    Args:
        plane: Where.
        pipeline: The version that is declared.
        request: What is asked.
        anew: Whether Spark is asked once more for a plan that it could not make before.

    Returns:
        False if it is not known yet: Spark plans the version.

    Raises:
        GateRefusedError: The finding that speaks against it.
        TidemillError: Why Spark could not plan it.
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
    """Whether a start or restart has to wait for the end of the driver that runs.

    A restart asks by the time of the decision, not of the process: its place may start the old driver again.
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
