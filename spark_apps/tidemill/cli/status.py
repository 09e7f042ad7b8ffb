"""`tidemill status`: desired and actual state, batch, age and lag."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import console, print_json, say, table

if TYPE_CHECKING:
    from tidemill.checkpoint.findings import Finding
    from tidemill.control.hubs import HubView
    from tidemill.control.plane import ControlPlane
    from tidemill.control.stream_status import PipelineState

# Seconds between two updates of --watch, which is the shortest usual trigger.
WATCH_SECONDS = 2.0

HEADINGS = (
    "pipeline",
    "mode",
    "desired",
    "actual",
    "batch",
    "committed",
    "rows",
    "quarantined",
    "late",
    "no event time",
    "lag",
    "note",
)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(status)


def status(
    context: typer.Context,
    pipeline: Annotated[str | None, typer.Argument(help="Name of the pipeline. Default: all.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Update every 2 s until CTRL-C.")] = False,
    broker: Annotated[
        bool,
        typer.Option("--broker", help="Also query the pipeline's event hub for lag, age and retention."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show desired state, actual state and lag. With a name, also show advice from measured values."""
    plane = invocation_of(context).control_plane()
    if pipeline is not None:
        plane.environment.project.pipeline_file(pipeline)
    if watch and as_json:
        raise typer.BadParameter("--watch is for people; call --json again instead")
    if as_json:
        states, advice = _states(plane, pipeline), _advice(plane, pipeline)
        hubs = {"hubs": [view.document() for view in _hubs(plane, pipeline)]} if broker else {}
        print_json(
            [{**_document(state, advice), "tables": _tables(plane, state), **hubs} for state in states]
        )
    elif watch:
        _watch(plane, pipeline)
    else:
        console().print(_table(plane, pipeline))
        _say_advice(plane, pipeline)
        _say_notes(plane, pipeline)
        if broker:
            _say_hubs(plane, pipeline)


def _hubs(plane: ControlPlane, name: str | None) -> list[HubView]:
    from tidemill.control.hubs import look_at_hubs
    from tidemill.sources.hub_facts import ask_hub
    from tidemill.spec.project import resolve_pipeline

    if name is None:
        raise typer.BadParameter("--broker asks the hub of one pipeline: name it")
    return look_at_hubs(resolve_pipeline(plane.environment, name), ask_hub)


def _say_hubs(plane: ControlPlane, pipeline: str | None) -> None:
    from tidemill.control.hygiene import line_of

    for view in _hubs(plane, pipeline):
        say(view.line())
        for finding in view.findings:
            say(line_of(finding))


def _say_advice(plane: ControlPlane, pipeline: str | None) -> None:
    from tidemill.control.hygiene import line_of

    for finding in _advice(plane, pipeline) or ():
        say(line_of(finding))


def _say_notes(plane: ControlPlane, pipeline: str | None) -> None:
    """Print the driver's notes on the input of one pipeline."""
    for state in _states(plane, pipeline) if pipeline is not None else ():
        for note in [] if state.status is None else state.status.notes:
            say(f"note: {note}")


def _advice(plane: ControlPlane, pipeline: str | None) -> Sequence[Finding] | None:
    """Return the advice for one pipeline. For all pipelines it would take too long."""
    from tidemill.checkpoint.doctor.examine import advice_for

    return None if pipeline is None else advice_for(plane.store, plane.environment, pipeline).findings


def _states(plane: ControlPlane, pipeline: str | None) -> list[PipelineState]:
    from tidemill.control.stream_status import all_states, pipeline_states

    if pipeline is not None:
        return pipeline_states(plane, {pipeline: plane.look_at(pipeline)})
    return all_states(plane)


def _watch(plane: ControlPlane, pipeline: str | None) -> None:
    from rich.live import Live

    # CTRL-C is the normal way to end this and not a failure.
    live = Live(_table(plane, pipeline), console=console(), auto_refresh=False)
    with contextlib.suppress(KeyboardInterrupt), live:
        while True:
            time.sleep(WATCH_SECONDS)
            live.update(_table(plane, pipeline), refresh=True)


def _table(plane: ControlPlane, pipeline: str | None) -> Any:
    now = datetime.now(UTC)
    return table(HEADINGS, (_row(state, now) for state in _states(plane, pipeline)))


def _row(state: PipelineState, now: datetime) -> tuple[object, ...]:
    seen = state.status
    if seen is None:
        return (
            state.facts.pipeline,
            state.facts.mode,
            state.wish,
            _actual(state),
            *[None] * 7,
            _note(state),
        )
    committed = None if seen.batch_committed_at is None else now - seen.batch_committed_at
    return (
        state.facts.pipeline,
        state.facts.mode,
        state.wish,
        _actual(state),
        seen.batch_id,
        committed,
        seen.rows,
        seen.quarantined_rows,
        seen.late_rows,
        seen.no_event_time_rows,
        seen.lag,
        _note(state),
    )


def _actual(state: PipelineState) -> str:
    """Return the state that the running driver reports, or the result of the last one if none runs."""
    if state.facts.running is not None:
        return "starting" if state.own_status is None else state.own_status.state
    if state.facts.endings and state.owner is None:
        return state.facts.endings[-1].result
    return "never ran" if state.status is None else state.status.state


def _note(state: PipelineState) -> str:
    if state.stall is not None:
        return state.stall.words(state.facts.now)
    return state.decision.reason.splitlines()[0] if state.decision.reason else ""


def _tables(plane: ControlPlane, state: PipelineState) -> list[str]:
    """Return the declared tables; empty if the declaration cannot be read, which is reported elsewhere."""
    from tidemill.errors import TidemillError
    from tidemill.names import catalogued_name

    catalog = plane.environment.spec.catalog
    try:
        sinks = plane.environment.project.load_pipeline(state.facts.pipeline).delta_sinks
    except TidemillError:
        return []
    return [catalogued_name(catalog, sink.table) for sink in sinks]


def _document(state: PipelineState, advice: Sequence[Finding] | None) -> dict[str, Any]:
    facts, seen = state.facts, state.status
    told = {} if advice is None else {"advice": [finding.document() for finding in advice]}
    running = facts.running
    return {
        "pipeline": facts.pipeline,
        "mode": facts.mode,
        "desired": state.wish,
        "suspended_until": None if facts.desired is None else facts.desired.until,
        "actual": _actual(state),
        "owner": None if state.owner is None else state.owner.model_dump(mode="json"),
        "problem": None if facts.problem is None else facts.problem.error_id,
        "progress": {
            "at": None if seen is None else seen.progressed_at,
            "within_seconds": facts.progress_within.total_seconds(),
            "stalled": None if state.stall is None else state.stall.words(facts.now),
            "runbook": None if state.stall is None else state.stall.runbook,
        },
        "next": {"action": state.decision.action, "reason": state.decision.reason},
        "driver": None
        if running is None
        else {
            "run_id": running.run_id,
            "mode": running.mode,
            "process": running.process,
            "started_at": running.started_at,
            "log": running.log,
        },
        "status": None if seen is None else seen.model_dump(mode="json"),
        **told,
    }
