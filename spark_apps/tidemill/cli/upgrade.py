"""`tidemill upgrade check`: whether a new version can take over, asked before the old one stops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, say
from tidemill.spec.readable import shown

if TYPE_CHECKING:
    from tidemill.checkpoint.upgrade.verdict import Verdict

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="New versions of a pipeline.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_group)
    group.command()(check)
    app.add_typer(group, name="upgrade")


def _group() -> None:
    """New versions of a pipeline."""


def check(context: typer.Context, pipeline: Name, as_json: AsJson = False) -> None:
    """Say whether the declared version can go on from the checkpoint; exit code 1 if not as it is."""
    from tidemill.control.upgrade_check import check_upgrade

    invocation = invocation_of(context)
    verdict = check_upgrade(invocation.control_plane(), invocation.pipeline(pipeline))
    if as_json:
        print_json(
            {
                "pipeline": pipeline,
                "verdict": verdict.answer,
                "must_be_accepted": verdict.must_be_accepted,
                "findings": [finding.document() for finding in verdict.findings],
            }
        )
    else:
        for line in _lines(pipeline, verdict):
            say(invocation.completed(line))
    if verdict.objection is not None:
        raise typer.Exit(1)


def _lines(pipeline: str, verdict: Verdict) -> Iterator[str]:
    for finding in verdict.findings:
        told = (f"{name}={shown(value)}" for name, value in finding.facts.items() if name != "pipeline")
        yield f"{finding.severity}  {finding.finding_id}  {finding.problem}"
        yield f"  {' '.join(told)}"
        yield f"  To fix: {finding.fix}"
    accepted = ", once it is accepted" if verdict.must_be_accepted else ""
    yield f"{pipeline}: {verdict.answer}{accepted}"
