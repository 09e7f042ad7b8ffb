"""`tidemill checkpoint reset`: begin anew from where one says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from tidemill.checkpoint.verbs.reset import ResetFacts
    from tidemill.spec.project import Pipeline
    from tidemill.storage.store import Store

Start = Annotated[
    str,
    typer.Option(
        "--from",
        help='earliest, latest, a moment (ISO 8601), or offsets: {"topic": {"0": 5}}.',
        show_default=False,
    ),
]


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(reset)


def reset(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    start: Start,
    apply: Apply = False,
    reason: Reason = "",
    by: By = "",
    approved_by: ApprovedBy = "",
    request_id: RequestId = "",
    as_json: AsJson = False,
) -> None:
    """Begin anew from offsets or a moment; tables stay, state is lost."""
    from tidemill.checkpoint.verbs.reset import plan_reset, reset_steps
    from tidemill.storage.store import Store

    invocation = invocation_of(context)
    resolved = invocation.pipeline(pipeline)
    store = Store(resolved.layout.root)
    asked = Asked(
        invocation, "reset", pipeline, ("--from", start), apply, by, reason, approved_by, request_id, as_json
    )
    parts = VerbParts(
        lambda: plan_reset(_facts(store, resolved, start)),
        lambda request, plan: reset_steps(store, resolved.layout, request, plan),
        _lines,
    )
    run_procedure(asked, resolved, parts)


def _facts(store: Store, pipeline: Pipeline, start: str) -> ResetFacts:
    from tidemill.checkpoint.current import next_generation, read_current
    from tidemill.checkpoint.verbs.reset import ResetFacts
    from tidemill.checkpoint.verbs.table_points import table_points
    from tidemill.cli.reset_start import starting_positions

    layout = pipeline.layout
    live = read_current(store, layout, pipeline.name)
    checkpoint = "" if live is None else layout.checkpoint(pipeline.name, live.generation)
    return ResetFacts(
        live,
        next_generation(store, layout, pipeline.name),
        starting_positions(pipeline, start),
        tuple(table_points(pipeline)),
        stateful=live is not None and bool(store.list_files(f"{checkpoint}/state")),
        topics=_topics(pipeline),
        asked=not start.lstrip().startswith("{"),
    )


def _topics(pipeline: Pipeline) -> frozenset[str] | None:
    named = pipeline.spec.source.topics_or_pattern
    return None if isinstance(named, re.Pattern) else frozenset(named)


def _lines(plan: Mapping[str, Any]) -> list[str]:
    lines = [f"generation {plan['parent']} -> {plan['generation']}; batches begin with 0"]
    for row in plan["partitions"]:
        where = f"{row['table']}  {row['topic']}-{row['partition']}"
        stands = "nothing" if row["stands_at"] is None else row["stands_at"]
        begins = "nothing" if row["begins_at"] is None else row["begins_at"]
        lines.append(f"{where}  {stands} -> {begins}  {_meaning(row)}")
    if plan["start"] is None:
        lines.append("all that the source still has is read again, as at a first start")
    elif not plan["partitions"]:
        lines.append("no table says how far it has read; gap and overlap are unknown")
    if plan["never_read"]:
        lines.append(f"{plan['never_read']} records are never read")
    if plan["read_again"]:
        lines.append(f"{plan['read_again']} records are read again; append tables get their rows twice")
    if plan["state_is_lost"]:
        lines.append("open windows and other state begin empty")
    return lines


def _meaning(row: Mapping[str, Any]) -> str:
    if row["gone"]:
        return "not there any more: nothing of it is read"
    if row["never_read"]:
        return f"gap: {row['never_read']} records are never read"
    if row["read_again"]:
        return f"overlap: {row['read_again']} records are read again"
    return "new to the table" if row["stands_at"] is None else "goes on exactly where the table stands"
