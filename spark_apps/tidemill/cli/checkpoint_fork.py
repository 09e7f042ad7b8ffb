"""`tidemill checkpoint fork`: another pipeline goes on from where this one stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.procedure_run import (
    Apply,
    ApprovedBy,
    AsJson,
    Asked,
    By,
    Name,
    Reason,
    RequestId,
    VerbParts,
    run_procedure,
)

Fork = Annotated[str, typer.Argument(help="Name of the fork: a pipeline file with tables of its own.")]
Batch = Annotated[
    int | None, typer.Option(min=0, help="Last batch that both share. Default: the newest committed one.")
]


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(fork)


def fork(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    fork: Fork,
    batch: Batch = None,
    apply: Apply = False,
    reason: Reason = "",
    by: By = "",
    approved_by: ApprovedBy = "",
    request_id: RequestId = "",
    as_json: AsJson = False,
) -> None:
    """Copy checkpoint and tables for a shadow or a rehearsal; the original may run on."""
    from tidemill.checkpoint.verbs.fork import fork_steps, plan_fork
    from tidemill.checkpoint.verbs.fork_facts import gather_fork
    from tidemill.storage.store import Store

    invocation = invocation_of(context)
    original, forked = invocation.pipeline(pipeline), invocation.pipeline(fork)
    store = Store(original.layout.root)
    arguments = (fork, *(() if batch is None else ("--batch", str(batch))))
    asked = Asked(
        invocation, "fork", pipeline, arguments, apply, by, reason, approved_by, request_id, as_json
    )
    parts = VerbParts(
        lambda: plan_fork(gather_fork(store, original, forked, batch)),
        lambda request, plan: fork_steps(store, original.layout, request, plan),
        _lines,
    )
    # Journal and hold are the fork's: the original is only read.
    run_procedure(asked, forked, parts)


def _lines(plan: Mapping[str, Any]) -> list[str]:
    lines = [f"{plan['origin']} {plan['parent']} after batch {plan['batch_id']} -> {plan['generation']}"]
    for name, table in plan["tables"].items():
        copied = f"version {table['version']}, {table['files']} files, {table['bytes']} bytes"
        lines.append(f"{table['of']} -> {name}: {'no table yet' if table['version'] is None else copied}")
    lines.append("rejected records are not copied; Kafka sinks get only what the fork sends from now on")
    return lines
