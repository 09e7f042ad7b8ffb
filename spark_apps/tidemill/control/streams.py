"""Reconciling all streams of an environment: gather facts, decide, act; one pipeline never stops another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from tidemill.checkpoint.desired import read_desired
from tidemill.checkpoint.receipts import newest_receipt
from tidemill.checkpoint.status import read_status
from tidemill.control.definition_change import objection_to
from tidemill.control.driver_command import DriverRun
from tidemill.control.plane import ControlPlane
from tidemill.control.reconcile import Decision, Facts, Reconciler
from tidemill.control.run_id import new_run_id
from tidemill.control.runtime import StartedDriver
from tidemill.errors import InternalError, SpecError, TidemillError
from tidemill.spec.project import Pipeline, resolve_pipeline


@dataclass(frozen=True)
class Outcome:
    """What was decided for a pipeline, and the driver that runs after it was done."""

    pipeline: str
    decision: Decision
    driver: StartedDriver | None = None


def reconcile_streams(plane: ControlPlane, reconciler: Reconciler | None = None) -> list[Outcome]:
    """Bring every stream to its desired state, as far as one short visit can.

    Visits all declared streams, and every pipeline whose driver runs although it is no declared stream.
    """
    judge = reconciler or Reconciler()
    return [_visit(plane, name, judge) for name in stream_names(plane)]


def stream_names(plane: ControlPlane) -> list[str]:
    """Declared streams, broken files, and whatever runs in a stream's place."""
    project = plane.environment.project
    running = set(plane.runtime.running_pipelines())
    declared = {name for name in project.pipeline_names() if _may_be_stream(plane, name)}
    return sorted(declared | running)


def gather_facts(plane: ControlPlane, name: str, now: datetime) -> Facts:
    """All that the decision about one pipeline needs."""
    pipeline, problem = _resolve(plane, name)
    start = plane.runtime.last_start(name)
    running = start if start is not None and start.alive else None
    ended = start if running is None else None
    ending = None if ended is None else plane.ending_of(ended)
    status = None if running is not None else read_status(plane.store, plane.layout, name)
    return Facts(
        pipeline=name,
        now=now,
        mode=_mode_of(pipeline, problem),
        digest=None if pipeline is None else pipeline.definition_digest,
        problem=problem,
        grace_period=plane.environment.spec.grace_period,
        on_change=plane.environment.spec.on_change,
        objection=_objection(plane, pipeline, running),
        desired=read_desired(plane.store, plane.layout, name),
        running=running,
        ended=ended,
        endings=tuple(plane.history(name).with_ending(ending)),
        newest_receipt=newest_receipt(plane.store, plane.layout, name),
        newest_status=status,
    )


def start_stream(plane: ControlPlane, pipeline: str, digest: str, run_id: str) -> StartedDriver:
    """Start the driver of a stream unless one runs; remember first how the one before ended."""
    ending = plane.last_ending(pipeline)
    if ending is not None:
        plane.history(pipeline).note(ending)
    return plane.runtime.start(DriverRun(pipeline, "stream", run_id), digest).driver


def _visit(plane: ControlPlane, name: str, reconciler: Reconciler) -> Outcome:
    try:
        facts = gather_facts(plane, name, datetime.now(UTC))
        decision = reconciler.decide(facts)
        return Outcome(name, decision, _act(plane, facts, decision))
    except TidemillError as error:
        return Outcome(name, Decision("failed", str(error), runbook=error.runbook))
    except Exception as error:  # noqa: BLE001  # an entry point: the other pipelines must be visited
        return Outcome(name, Decision("failed", f"{type(error).__name__}: {error}"))


def _act(plane: ControlPlane, facts: Facts, decision: Decision) -> StartedDriver | None:
    driver = facts.running
    match decision.action:
        case "start":
            if facts.digest is None:
                raise InternalError("TIDE-CTRL-005", "A start was decided without a declaration.")
            run_id = new_run_id("stream", facts.now)
            return start_stream(plane, facts.pipeline, facts.digest, run_id)
        case "stop" if driver is not None:
            plane.runtime.drain(driver)
        case "kill" if driver is not None:
            plane.runtime.kill(driver)
            return None
        case "leave" | "failed" if driver is not None and driver.drain_requested_at is not None:
            # Asking may have failed half-way, with the request noted and the driver not told.
            plane.runtime.drain(driver)
        case "leave" | "refused" | "hold" if facts.ended is not None:
            plane.runtime.put_away(facts.ended)
    return driver


def _objection(
    plane: ControlPlane, pipeline: Pipeline | None, running: StartedDriver | None
) -> TidemillError | None:
    """What the gate says of a changed definition; asked only if the running driver would go for it."""
    if pipeline is None or running is None or plane.environment.spec.on_change == "leave":
        return None
    if running.mode != "stream" or running.digest == pipeline.definition_digest:
        return None
    return objection_to(plane.store, pipeline)


def _resolve(plane: ControlPlane, name: str) -> tuple[Pipeline | None, TidemillError | None]:
    try:
        return resolve_pipeline(plane.environment, name), None
    except TidemillError as error:
        return None, error


def _mode_of(
    pipeline: Pipeline | None, problem: TidemillError | None
) -> Literal["stream", "incremental"] | None:
    if pipeline is not None:
        return pipeline.spec.run.mode
    # TIDE-SPEC-011: the file is gone. Any other problem is a file that says stream, or might.
    return None if problem is not None and problem.error_id == "TIDE-SPEC-011" else "stream"


def _may_be_stream(plane: ControlPlane, name: str) -> bool:
    try:
        return plane.environment.project.load_pipeline(name).run.mode == "stream"
    except SpecError:
        return True
