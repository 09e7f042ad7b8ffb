"""`tidemill source clean`: archive or delete files that were read, as declared in the pipeline file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.procedure_run import run_procedure
from tidemill.cli.verb_command import Apply, ApprovedBy, AsJson, By, Name, Reason, RequestId, VerbCall
from tidemill.errors import UsageError

if TYPE_CHECKING:
    from tidemill.spec.project import Pipeline


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="Files that pipelines read.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    group.command()(clean)
    app.add_typer(group, name="source")


def clean(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    apply: Apply = False,
    reason: Reason = "hygiene",
    by: By = "",
    approved_by: ApprovedBy = "",
    request_id: RequestId = "",
    as_json: AsJson = False,
) -> None:
    """Archive or delete files that were read and are not needed. The stream may continue to run."""
    from tidemill.control.procedures.parts import clean as parts_of

    invocation = invocation_of(context)
    resolved = invocation.pipeline(pipeline)
    _check_asked(resolved)
    call = VerbCall(
        invocation,
        "clean",
        pipeline,
        apply=apply,
        reason=reason,
        by=by,
        approved_by=approved_by,
        request_id=request_id,
        as_json=as_json,
        group="source",
    )
    run_procedure(call, parts_of(invocation.control_plane(), resolved))


def _check_asked(pipeline: Pipeline) -> None:
    from tidemill.spec.files_after import cleaned_sources

    if not cleaned_sources(pipeline):
        raise UsageError(
            "TIDE-FILE-006",
            "This pipeline leaves its files where they are.",
            facts={"pipeline": pipeline.name},
            fix="set `after: archive` or `after: delete` of its files source",
        )
