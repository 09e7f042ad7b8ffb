"""The doctor's findings about streams without progress, by the decision that `status` shows."""

from __future__ import annotations

from collections.abc import Collection

from tidemill.checkpoint.findings import Finding
from tidemill.control.plane import open_control_plane
from tidemill.control.stream_status import PipelineState, all_states, pipeline_states
from tidemill.errors import TidemillError, UnavailableError
from tidemill.spec.project import Environment


def stuck_stream_findings(environment: Environment, names: Collection[str]) -> list[Finding]:
    """Return TIDE-CTRL-016 for each stream without progress, of these or all pipelines; changes nothing.

    If drivers cannot be observed, one note reports it; the doctor's other findings do not need them.
    """
    try:
        plane = open_control_plane(environment)
        states = (
            pipeline_states(plane, {name: plane.look_at(name) for name in names})
            if names
            else all_states(plane)
        )
    except TidemillError as error:
        return [_not_asked("all streams", error)]
    return [finding for state in states if (finding := _finding(state)) is not None]


def _not_asked(name: str, error: TidemillError) -> Finding:
    problem = f"Whether it makes progress could not be asked. {error.problem}"
    return Finding(error.error_id, "note", name, problem, error.facts, error.fix, error.runbook)


def _finding(state: PipelineState) -> Finding | None:
    stall, name, problem = state.stall, state.facts.pipeline, state.facts.problem
    if isinstance(problem, UnavailableError):
        return _not_asked(name, problem)
    if stall is None:
        return None
    return Finding(
        "TIDE-CTRL-016",
        "error",
        name,
        "The stream should run, and makes no progress.",
        {"since": stall.since, "for": state.facts.now - stall.since, "reason": stall.reason},
        f"tidemill status {name}",
        stall.runbook,
    )
