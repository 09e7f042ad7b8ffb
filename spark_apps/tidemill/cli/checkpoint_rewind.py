"""`tidemill checkpoint rewind`: tables, offsets and state together back to a batch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import Invocation, invocation_of
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
    from tidemill.checkpoint.verbs.rewind import RewindFacts
    from tidemill.checkpoint.verbs.rewind_target import Target
    from tidemill.spec.project import Pipeline

To = Annotated[
    str,
    typer.Option(
        help="Last batch that stays (118), a version of the first table (v42), or a moment "
        "(2026-11-20T14:00:00Z) after which nothing stays."
    ),
]


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(rewind)


def rewind(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    to: To,
    apply: Apply = False,
    reason: Reason = "",
    by: By = "",
    approved_by: ApprovedBy = "",
    request_id: RequestId = "",
    as_json: AsJson = False,
) -> None:
    """Take tables, offsets and state back together; what follows is computed again."""
    from tidemill.checkpoint.verbs.rewind import plan_rewind, rewind_steps
    from tidemill.checkpoint.verbs.rewind_target import parse_target
    from tidemill.cli.spark_process import restoring
    from tidemill.storage.store import Store

    invocation = invocation_of(context)
    resolved = invocation.pipeline(pipeline)
    target = parse_target(to)
    asked = Asked(
        invocation, "rewind", pipeline, ("--to", to), apply, by, reason, approved_by, request_id, as_json
    )
    store = Store(resolved.layout.root)
    parts = VerbParts(
        lambda: plan_rewind(_facts(invocation, resolved, target)),
        lambda request, plan: rewind_steps(store, resolved.layout, request, plan, restoring(resolved)),
        rewind_lines,
    )
    run_procedure(asked, resolved, parts)


def rewind_lines(plan: Mapping[str, Any]) -> list[str]:
    """The plan as a person reads it."""
    undone = plan["batches_undone"]
    lines = [f"generation {plan['parent']} -> {plan['generation']}, after batch {plan['batch_id']}"]
    lines.append(f"batches {undone[0]}-{undone[1]} are undone" if undone else "no batch is undone")
    for name, table in plan["tables"].items():
        lines += _table_lines(name, table)
    for name, readers in plan["read_by"].items():
        if readers:
            lines.append(f"{name} is read by {', '.join(readers)}: they have read rows that go")
    lines += [f"topic {topic}: records of the undone batches are sent again" for topic in plan["sent_again"]]
    if not plan["source_answered"]:
        lines.append("the broker does not answer: whether it still has the records that follow is not known")
    return lines


def _table_lines(name: str, table: Mapping[str, Any]) -> list[str]:
    if not table["batches"]:
        return [f"{name}: stays at version {table['version']}"]
    rows = "an unknown number of" if table["rows"] is None else table["rows"]
    lines = [
        f"{name}: version {table['version']} -> {table['to']}; {table['batches']} batches, {rows} rows go"
    ]
    if table["committed"]:
        lines.append(f"  committed {table['committed'][0]} to {table['committed'][1]}")
    if table["event_times"]:
        lines.append(f"  event times {table['event_times'][0]} to {table['event_times'][1]}")
    if table["maintenance"]:
        lines.append(f"  {table['maintenance']} commits of table maintenance are undone, too")
    return lines


def _facts(invocation: Invocation, pipeline: Pipeline, target: Target) -> RewindFacts:
    from tidemill.checkpoint.verbs.rewind_facts import gather_rewind
    from tidemill.storage.store import Store

    return gather_rewind(
        Store(pipeline.layout.root), pipeline, target, _readers(invocation), _oldest(pipeline)
    )


def _readers(invocation: Invocation) -> dict[str, list[str]]:
    """Pipelines that read each table. A file that is wrong must not stand in the way of a rewind."""
    from tidemill.errors import SpecError

    project = invocation.project()
    readers: dict[str, list[str]] = {}
    for name in project.pipeline_names():
        try:
            source = project.load_pipeline(name).source
        except SpecError:
            sys.stderr.write(f"{name}: its file is wrong, so what it reads is not known\n")
            continue
        if source.delta is not None:
            readers.setdefault(source.delta.table, []).append(name)
    return readers


def _oldest(pipeline: Pipeline) -> dict[str, dict[str, int]] | None:
    """Oldest records that the broker has; None if it does not answer, nothing for other sources."""
    from tidemill.errors import UnavailableError

    if not pipeline.spec.source.is_kafka:
        return {}
    from tidemill.sources.topic_facts import ask_topics

    try:
        return {topic: dict(partitions) for topic, partitions in ask_topics(pipeline).oldest.items()}
    except UnavailableError:
        return None
