"""Short helpers for tests about streams: requests, decisions and results."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.eventually import eventually
from tidemill.control.ask.goal import Goal, prove
from tidemill.control.ask.proof import Proof
from tidemill.control.ask.stream_request import StreamRequest
from tidemill.control.decide.reconcile import Reconciler
from tidemill.control.decide.visit import Outcome
from tidemill.control.plane import ControlPlane
from tidemill.spec.restarts import RestartPolicy

# Restarts without waiting, so that a test sees several in a second.
AT_ONCE = Reconciler(RestartPolicy().model_copy(update={"first_delay": timedelta(0)}))


def request(verb: Any, name: str = "orders", *, at: datetime | None = None, **facts: Any) -> StreamRequest:
    asked_at = at or datetime.now(UTC)
    return StreamRequest(
        pipeline=name,
        verb=verb,
        run_id=facts.pop("run_id", f"{verb}-{asked_at:%f}"),
        at=asked_at,
        by="ann",
        **facts,
    )


def by_name(outcomes: list[Outcome]) -> dict[str, str]:
    """Return the action by pipeline."""
    return {outcome.pipeline: outcome.decision.action for outcome in outcomes}


def settled(plane: ControlPlane, goal: Goal, timeout_seconds: float = 30) -> Proof:
    """Wait until a goal is proven, or cannot be any more."""

    def proof() -> Proof | None:
        seen = prove(plane, goal)
        return seen if seen.state != "pending" else None

    return eventually(proof, f"{goal} is settled", timeout_seconds)


def until_ended(plane: ControlPlane, name: str) -> None:
    eventually(lambda: plane.running(name) is None, f"{name} has ended")


def impatient(plane: ControlPlane) -> ControlPlane:
    """Return a control plane that kills a driver which has not drained within a fifth of a second."""
    spec = plane.environment.spec.model_copy(update={"grace_period": timedelta(seconds=0.2)})
    return replace(plane, environment=replace(plane.environment, spec=spec))
