"""`tidemill start | stop | restart`: the desired state of a stream, carried out and proven."""

from __future__ import annotations

import getpass
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import say

if TYPE_CHECKING:
    from tidemill.control.stream_request import Verb

# Seconds until a proof is given up, beside the grace period that a drain may take: a cold start takes 10-20,
# longer on a busy machine.
START_TIMEOUT_SECONDS = 120.0

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
Reason = Annotated[str, typer.Option(help="Why; kept with the request.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=1,
        help="Seconds to wait for the proof; two minutes beside the environment's grace period.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    for verb in (start, stop, restart):
        app.command()(verb)


def start(context: typer.Context, pipeline: Name, reason: Reason = "", timeout: Timeout = None) -> None:
    """Start a stream; wait for a committed batch."""
    _carry_out(invocation_of(context), "start", pipeline, reason, timeout)


def stop(context: typer.Context, pipeline: Name, reason: Reason = "", timeout: Timeout = None) -> None:
    """Stop a stream after its running batch."""
    _carry_out(invocation_of(context), "stop", pipeline, reason, timeout)


def restart(context: typer.Context, pipeline: Name, reason: Reason = "", timeout: Timeout = None) -> None:
    """Stop a stream after its batch, start again."""
    _carry_out(invocation_of(context), "restart", pipeline, reason, timeout)


def _carry_out(invocation: Invocation, verb: Verb, pipeline: str, reason: str, timeout: float | None) -> None:
    from tidemill.control.run_id import new_run_id
    from tidemill.control.stream_request import StreamRequest, carry_out

    now = datetime.now(UTC)
    # An unknown name must not leave a wish behind.
    invocation.project().pipeline_file(pipeline)
    request = StreamRequest(pipeline, verb, new_run_id("stream", now), now, getpass.getuser(), reason)
    plane = invocation.control_plane()
    if timeout is None:
        timeout = plane.environment.spec.grace_period.total_seconds() + START_TIMEOUT_SECONDS
    proof = carry_out(plane, request, timeout, _tell)
    say(f"{pipeline}: {proof.message}")
    if proof.state != "done":
        raise typer.Exit(1)


def _tell(message: str) -> None:
    sys.stderr.write(f"{message}\n")
