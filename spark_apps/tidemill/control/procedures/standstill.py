"""Stop a stream while an operation changes its checkpoint, and start it again afterwards.

Both are ordinary requests, a stop and a start. So reconciliation does not interfere, and a later request
wins. The start is one microsecond later than the stop.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from tidemill.checkpoint.desired import Desired, read_desired
from tidemill.checkpoint.gate import check_holds
from tidemill.control.ask.goal import Goal
from tidemill.control.ask.stream_request import StreamRequest, begin
from tidemill.spec.project import resolve_pipeline

if TYPE_CHECKING:
    from tidemill.control.plane import ControlPlane

# Time by which the start is later than the stop that it ends.
LATER = timedelta(microseconds=1)


def stand_still(plane: ControlPlane, stop: StreamRequest) -> Goal | None:
    """Stop a stream that should run, or that runs; None if there is nothing to stop.

    A cut-off batch is not an error, because the gate handles it.

    Raises:
        GateRefusedError: If another control plane owns the storage root.
        UsageError: TIDE-CTRL-007, if a later request exists.
    """
    if resolve_pipeline(plane.environment, stop.pipeline).spec.run.mode != "stream":
        return None
    standing = read_desired(plane.store, plane.layout, stop.pipeline)
    if standing is None or standing.state == "running" or _is(standing, stop):
        return begin(plane, stop).model_copy(update={"final": False})
    # Stopped by another user, who will start it. Only its driver may still be draining.
    if plane.running(stop.pipeline) is None:
        return None
    return Goal(pipeline=stop.pipeline, kind="stopped", final=False)


def go_on(plane: ControlPlane, stop: StreamRequest) -> Goal | None:
    """Start the stream that `stop` has stopped; None if it stopped none, or a later request exists.

    Raises:
        GateRefusedError: If a hold prevents the start, such as the hold of an unfinished operation.
    """
    start = replace(stop, verb="start", at=stop.at + LATER)
    standing = read_desired(plane.store, plane.layout, stop.pipeline)
    if standing is None or not (_is(standing, stop) or _is(standing, start)):
        return None
    check_holds(plane.store, plane.layout, stop.pipeline)
    return begin(plane, start)


def _is(standing: Desired, request: StreamRequest) -> bool:
    state = "stopped" if request.verb == "stop" else "running"
    return (standing.by, standing.state, standing.stands_since) == (request.by, state, request.at)
