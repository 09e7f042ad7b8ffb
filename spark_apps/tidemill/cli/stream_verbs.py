"""`tidemill start | stop | restart | suspend | resume`: set a stream's desired state and wait for it."""

from __future__ import annotations

import getpass
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.airflow_names import STREAMS_DAG_ID
from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import say

if TYPE_CHECKING:
    from tidemill.control.ask.stream_request import Verb
    from tidemill.control.plane import ControlPlane

# Seconds to wait for the desired state, in addition to the grace period of a drain. A cold start takes 10 to
# 20 s, longer on a busy machine.
START_TIMEOUT_SECONDS = 120.0

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
NameOrNone = Annotated[str | None, typer.Argument(help="Name of the pipeline.", show_default=False)]
Reason = Annotated[str, typer.Option(help="Reason, recorded with the request.")]
Until = Annotated[
    str | None,
    typer.Option(
        help="Time of the next start, ISO 8601, in UTC without an offset. Default: until `tidemill resume`.",
        show_default=False,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=1,
        help="Seconds to wait for the result. Default: two minutes plus the environment's grace period.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for verb in (start, stop, restart, suspend, resume):
        app.command()(verb)


def start(context: typer.Context, pipeline: Name, reason: Reason = "", timeout: Timeout = None) -> None:
    """Start a stream and wait for a committed batch."""
    _carry_out(invocation_of(context), "start", pipeline, reason, timeout)


def stop(
    context: typer.Context,
    pipeline: NameOrNone = None,
    every: Annotated[bool, typer.Option("--all", help="Stop all streams in parallel.")] = False,
    reason: Reason = "",
    timeout: Timeout = None,
) -> None:
    """Stop a stream after its running batch."""
    if (pipeline is None) != every:
        raise typer.BadParameter("name one pipeline, or all of them with --all")
    if pipeline is not None:
        _carry_out(invocation_of(context), "stop", pipeline, reason, timeout)
    else:
        _stop_all(invocation_of(context), reason, timeout)


def restart(context: typer.Context, pipeline: Name, reason: Reason = "", timeout: Timeout = None) -> None:
    """Stop a stream after its running batch and start it again."""
    _carry_out(invocation_of(context), "restart", pipeline, reason, timeout)


def suspend(
    context: typer.Context, pipeline: Name, until: Until = None, reason: Reason = "", timeout: Timeout = None
) -> None:
    """Stop a stream until a given time, or until it is resumed.

    After that time, the next reconciliation starts it again.
    """
    _carry_out(invocation_of(context), "suspend", pipeline, reason, timeout, until)
    again = f"{STREAMS_DAG_ID} starts it again after {until}; " if until else ""
    say(f"{again}to start it now: tidemill resume {pipeline}")


def resume(context: typer.Context, pipeline: Name, reason: Reason = "", timeout: Timeout = None) -> None:
    """End a suspension now and wait for a committed batch."""
    _carry_out(invocation_of(context), "resume", pipeline, reason, timeout)


def _carry_out(  # noqa: PLR0913  # the options of a command line
    invocation: Invocation,
    verb: Verb,
    pipeline: str,
    reason: str,
    timeout: float | None,
    until: str | None = None,
) -> None:
    from tidemill.control.ask.run_id import new_run_id
    from tidemill.control.ask.stream_request import StreamRequest, carry_out
    from tidemill.control.decide.suspension import parse_until

    now = datetime.now(UTC)
    # An unknown name must not leave a desired state behind.
    invocation.project().pipeline_file(pipeline)
    who, run_id = getpass.getuser(), new_run_id("stream", now)
    request = StreamRequest(pipeline, verb, run_id, now, who, reason, parse_until(until))
    plane = invocation.control_plane()
    proof = carry_out(plane, request, timeout or _patience(plane), _tell)
    say(f"{pipeline}: {proof.message}")
    if proof.state != "done":
        raise typer.Exit(1)


def _stop_all(invocation: Invocation, reason: str, timeout: float | None) -> None:
    """Request all streams to stop, then wait for each, so that they drain in parallel.

    If one request fails, the other streams still stop.
    """
    from tidemill.control.ask.run_id import new_run_id
    from tidemill.control.ask.stream_request import StreamRequest, begin, carry_out
    from tidemill.control.decide.all_streams import known_streams
    from tidemill.errors import UnavailableError, UsageError

    now = datetime.now(UTC)
    plane = invocation.control_plane()
    requests = [
        StreamRequest(name, "stop", new_run_id("stream", now), now, getpass.getuser(), reason)
        for name in known_streams(plane)
    ]
    asked, failed = [], False
    for request in requests:
        try:
            begin(plane, request)
            asked.append(request)
        except (UnavailableError, UsageError) as error:
            failed = True
            say(f"{request.pipeline}: {error}")
    for request in asked:
        proof = carry_out(plane, request, timeout or _patience(plane), _tell)
        failed = failed or proof.state != "done"
        say(f"{request.pipeline}: {proof.message}")
    if failed:
        raise typer.Exit(1)


def _patience(plane: ControlPlane) -> float:
    return plane.environment.spec.grace_period.total_seconds() + START_TIMEOUT_SECONDS


def _tell(message: str) -> None:
    sys.stderr.write(f"{message}\n")
