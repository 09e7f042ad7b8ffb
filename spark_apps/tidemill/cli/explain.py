"""`tidemill explain`: describe one pipeline in sentences, without changing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, say
from tidemill.spec.readable import plain

if TYPE_CHECKING:
    from tidemill.control.explanation import Explanation


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(explain)


def explain(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain in sentences what a pipeline does, what it waits for, and why it is slow."""
    from tidemill.checkpoint.doctor.examine import advice_for
    from tidemill.control.explanation import explain_pipeline
    from tidemill.control.hygiene import line_of
    from tidemill.control.stream_status import pipeline_states

    invocation = invocation_of(context)
    declared, plane = invocation.pipeline(pipeline), invocation.control_plane()
    (state,) = pipeline_states(plane, {pipeline: plane.look_at(pipeline)})
    advised = advice_for(plane.store, plane.environment, pipeline)
    explained = explain_pipeline(declared, state, advised.measured)
    if as_json:
        told = {"advice": [finding.document() for finding in advised.findings]}
        print_json({"pipeline": pipeline, **explained.document(), **told})
        return
    _say(explained)
    for finding in advised.findings:
        say(f"  {plain(line_of(finding))}")


def _say(explained: Explanation) -> None:
    for heading, sentences in explained.paragraphs:
        say(heading)
        for sentence in sentences:
            say(f"  {plain(sentence)}")
