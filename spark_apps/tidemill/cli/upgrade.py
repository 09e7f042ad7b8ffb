"""`tidemill upgrade`: check whether a new version can take over, and compare its results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, say
from tidemill.spec.readable import shown

if TYPE_CHECKING:
    from tidemill.checkpoint.upgrade.verdict import Verdict

Name = Annotated[str, typer.Argument(help="Name of the pipeline.")]
Batches = Annotated[
    int,
    typer.Option(
        "--batches",
        min=1,
        max=50,
        help="Number of batches. Fewer are used if other writers committed between them.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="New versions of a pipeline.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(_group)
    for verb in (check, shadow):
        group.command()(verb)
    app.add_typer(group, name="upgrade")


def _group() -> None:
    """New versions of a pipeline."""


def check(context: typer.Context, pipeline: Name, as_json: AsJson = False) -> None:
    """Check whether the declared version can continue from the checkpoint. Exit code 1 if it cannot."""
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


def shadow(context: typer.Context, pipeline: Name, batches: Batches = 5, as_json: AsJson = False) -> None:
    """Repeat the newest batches with the declared version on a copy, and compare. Exit code 1 if they differ.

    Each batch has its original offsets, watermark and clock. The copy is deleted at the end. The live tables
    are only read, and the stream continues to run.
    """
    from tidemill.control.shadow_run import run_shadow, stretch_of

    invocation = invocation_of(context)
    plane, resolved = invocation.control_plane(), invocation.pipeline(pipeline)
    stretch = stretch_of(plane, resolved, batches)
    if not as_json:
        again = f"{len(stretch.batches)} of {batches} wanted" if len(stretch.batches) < batches else ""
        told = f"{stretch.batches[0]}-{stretch.last} of {stretch.generation}{again and f', {again}'}"
        sys.stderr.write(f"{pipeline}: Spark makes the batches {told} again\n")
    found = run_shadow(plane, resolved, stretch)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        for line in found.lines():
            say(line)
    if not found.is_same:
        raise typer.Exit(1)


def _lines(pipeline: str, verdict: Verdict) -> Iterator[str]:
    for finding in verdict.findings:
        told = (f"{name}={shown(value)}" for name, value in finding.facts.items() if name != "pipeline")
        yield f"{finding.severity}  {finding.finding_id}  {finding.problem}"
        yield f"  {' '.join(told)}"
        yield f"  To fix: {finding.fix}"
    accepted = ", once it is accepted" if verdict.must_be_accepted else ""
    yield f"{pipeline}: {verdict.answer}{accepted}"
