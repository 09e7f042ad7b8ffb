"""A stream stands still while a verb changes its checkpoint, and goes on afterwards.

Both are requests as a person makes them, a stop and a start: reconciliation leaves the stream alone, and
what someone asks later wins. The start is the younger one by a microsecond.
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

# By how much the start is younger than the stop that it ends.
LATER = timedelta(microseconds=1)


def stand_still(plane: ControlPlane, stop: StreamRequest) -> Goal | None:
    """Stop a stream that should run, or that runs; None if there is nothing to stop.

    A batch that is cut off is no reason to give up: the gate says what becomes of it.

    Raises:
        GateRefusedError: If the storage root is another control plane's.
        UsageError: TIDE-CTRL-007, if someone has asked for something else since.
    """
    if resolve_pipeline(plane.environment, stop.pipeline).spec.run.mode != "stream":
        return None
    standing = read_desired(plane.store, plane.layout, stop.pipeline)
    if standing is None or standing.state == "running" or _is(standing, stop):
        return begin(plane, stop).model_copy(update={"final": False})
    # Stopped by someone else, who will start it: only its driver may be on the way out still.
    if plane.running(stop.pipeline) is None:
        return None
    return Goal(pipeline=stop.pipeline, kind="stopped", final=False)


def go_on(plane: ControlPlane, stop: StreamRequest) -> Goal | None:
    """Start the stream that `stop` has stopped; None if it has stopped none, or someone has asked since.

    Raises:
        GateRefusedError: If a hold forbids it, as that of a verb that has not come to its end.
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
