"""`tidemill checkpoint doctor`: present and future problems of an environment's checkpoints."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.spec.readable import shown

if TYPE_CHECKING:
    from tidemill.checkpoint.doctor.examine import AskBroker, Examination
    from tidemill.checkpoint.findings import Finding


def add_to(group: typer.Typer) -> None:
    """Register the command."""
    group.command()(doctor)


def doctor(
    context: typer.Context,
    pipelines: Annotated[
        list[str] | None,
        typer.Argument(help="Names of pipelines. Default: all, including state folders without one."),
    ] = None,
    broker: Annotated[
        bool,
        typer.Option(
            "--broker", help="Also query the retention of the brokers, and the properties of event hubs."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check all checkpoints and streams, without changing anything. Exit code 1 if there is an error now."""
    from tidemill.checkpoint.doctor.examine import ask_nobody, examine

    invocation = invocation_of(context)
    found = examine(invocation.environment(), pipelines or (), _ask_broker() if broker else ask_nobody)
    found = _with_streams(invocation, pipelines, found)
    if broker:
        found = _with_hubs(invocation, pipelines, found)
    if as_json:
        print_json(_document(found))
    else:
        _print(found, invocation)
    if not found.is_healthy:
        raise typer.Exit(1)


def _ask_broker() -> AskBroker:
    from tidemill.sources.topic_retention import TopicRetention

    return TopicRetention()


def _with_streams(invocation: Invocation, names: list[str] | None, found: Examination) -> Examination:
    """Add findings about streams of these pipelines that make no progress."""
    from tidemill.control.stuck_streams import stuck_stream_findings

    return _with(found, stuck_stream_findings(invocation.environment(), names or ()))


def _with_hubs(invocation: Invocation, names: list[str] | None, found: Examination) -> Examination:
    """Add findings about the event hubs of these pipelines."""
    from tidemill.control.hubs import hub_findings_of

    environment = invocation.environment()
    return _with(found, hub_findings_of(environment, names or environment.project.pipeline_names()))


def _with(found: Examination, more: list[Finding]) -> Examination:
    from tidemill.checkpoint.findings import worst_first

    return replace(found, findings=tuple(worst_first([*found.findings, *more])))


def _document(found: Examination) -> dict[str, object]:
    return {
        "pipelines": found.pipelines,
        "folders": found.folders,
        "healthy": found.is_healthy,
        "findings": [
            {**finding.document(), "facts": {name: _plain(v) for name, v in finding.facts.items()}}
            for finding in found.findings
        ],
    }


def _print(found: Examination, invocation: Invocation) -> None:
    if found.findings:
        rows = (_row(finding, invocation) for finding in found.findings)
        print_table(("severity", "pipeline", "id", "problem", "facts", "fix"), rows)
    counts = {s: sum(f.severity == s for f in found.findings) for s in ("error", "warning", "note")}
    told = ", ".join(_counted(count, severity) for severity, count in counts.items() if count)
    looked = f"{_counted(found.pipelines, 'pipeline')}, {_counted(found.folders, 'state folder')}"
    say(f"{looked}: {told or 'nothing found'}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _row(finding: Finding, invocation: Invocation) -> tuple[object, ...]:
    facts = " ".join(f"{name}={shown(value)}" for name, value in finding.facts.items())
    fix = invocation.completed(finding.fix)
    return (finding.severity, finding.pipeline, finding.finding_id, finding.problem, facts, fix)


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.total_seconds() if isinstance(value, timedelta) else str(value)
