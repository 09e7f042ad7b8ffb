"""`tidemill validate`: check conf files without Spark and network."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, say

if TYPE_CHECKING:
    from tidemill.cli.pipeline_check import Finding


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(validate)


def validate(
    context: typer.Context,
    pipelines: Annotated[list[str] | None, typer.Argument(help="Names of pipelines. Default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check conf files, payload schemas and transforms without Spark."""
    from tidemill.cli.pipeline_check import check_all, check_named

    environment = invocation_of(context).environment()
    findings = check_named(environment, pipelines) if pipelines else check_all(environment)
    # A pipeline that is named must be valid in this environment.
    others = [] if pipelines else [finding for finding in findings if finding.is_elsewhere]
    wrong = [finding for finding in findings if finding.error is not None and finding not in others]
    if as_json:
        print_json(
            {"environment": environment.name, "findings": [_document(finding) for finding in findings]}
        )
    else:
        _print([finding for finding in findings if finding not in others])
        for finding in others:
            say(f"other  {finding.name}: {str(finding.error).partition(chr(10))[0]}")
        right = len(findings) - len(wrong) - len(others)
        elsewhere = f", {len(others)} for other environments" if others else ""
        say(f"{right} right, {len(wrong)} wrong{elsewhere}, environment {environment.name}")
    if wrong:
        raise typer.Exit(2)


def _print(findings: list[Finding]) -> None:
    for finding in findings:
        if finding.error is None:
            say(f"ok     {finding.name}")
        else:
            say(f"wrong  {finding.name}")
            sys.stderr.write(f"{finding.error}\n\n")


def _document(finding: Finding) -> dict[str, Any]:
    error = finding.error
    return {
        "name": finding.name,
        "file": str(finding.file),
        "ok": error is None,
        "elsewhere": finding.is_elsewhere,
        "error": None
        if error is None
        else {
            "id": error.error_id,
            "problem": error.problem,
            "facts": {name: str(value) for name, value in error.facts.items()},
            "fix": error.fix,
        },
    }
