"""`tidemill lineage`: recreate OpenLineage events from the ledger, and show or send them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.errors import SpecError, UsageError

if TYPE_CHECKING:
    from tidemill.spec.project import Environment, Pipeline

PipelineName = Annotated[str, typer.Argument(help="Name of the pipeline.")]
Since = Annotated[str, typer.Option(help="Start time, e.g. 2026-03-01T00:00:00Z, in UTC without an offset.")]


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(help="OpenLineage events of runs.", no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    group.command()(show)
    group.command()(emit)
    app.add_typer(group, name="lineage")


def show(
    context: typer.Context,
    pipeline: PipelineName,
    since: Since,
    as_json: Annotated[bool, typer.Option("--json", help="Print the events as they are sent.")] = False,
) -> None:
    """Show the events without sending them. No lineage service is needed."""
    events = _events(invocation_of(context).pipeline(pipeline), since)
    if as_json:
        print_json(events)
    else:
        print_table(("time", "event", "batch", "read", "wrote", "run"), map(_row, events))


def _row(event: dict[str, Any]) -> tuple[object, ...]:
    run = event["run"]
    batch = run["facets"].get("tidemill_batch", {}).get("batchId")
    inputs, outputs = (", ".join(map(_named, event[key])) for key in ("inputs", "outputs"))
    return event["eventTime"], event["eventType"], batch, inputs, outputs, run["runId"]


def _named(dataset: dict[str, Any]) -> str:
    """Return a dataset's catalog name, or its location if it has none, with its version."""
    facets = dataset["facets"]
    names = [identifier["name"] for identifier in facets.get("symlinks", {}).get("identifiers", ())]
    version = facets.get("version", {}).get("datasetVersion")
    name: str = names[0] if names else dataset["name"]
    return name + ("" if version is None else f" v{version}")


def emit(context: typer.Context, pipeline: PipelineName, since: Since) -> None:
    """Send the events of all batches, oldest first. Events that were sent before are identical."""
    from tidemill.lineage.endpoint import endpoint_of

    resolved = invocation_of(context).pipeline(pipeline)
    endpoint = endpoint_of(resolved.environment)
    if endpoint is None:
        raise _no_service(resolved.environment)
    events = _events(resolved, since)
    for number, event in enumerate(events, start=1):
        endpoint.post(event)
        say(f"{event['eventTime']}  {event['eventType']:<8}  {number} of {len(events)}")
    say(f"{len(events)} events sent to {endpoint.url}")


def _events(pipeline: Pipeline, since: str) -> list[dict[str, Any]]:
    from tidemill.lineage.replay import events_since
    from tidemill.storage.store import Store

    return events_since(Store(pipeline.layout.root), pipeline, _moment(since))


def _moment(text: str) -> datetime:
    from pydantic import TypeAdapter, ValidationError

    from tidemill.spec.starting_offsets import Moment

    try:
        moment: datetime = TypeAdapter(Moment).validate_python(text)
    except ValidationError as error:
        raise UsageError(
            "TIDE-LINE-003",
            "This is not a moment.",
            facts={"since": ascii(text[:40])[1:-1]},
            fix="write it as 2026-03-01T00:00:00Z",
        ) from error
    return moment


def _no_service(environment: Environment) -> SpecError:
    return SpecError(
        "TIDE-LINE-004",
        "The environment names no lineage service.",
        facts={"file": environment.file},
        fix="add `lineage: {url: …}`; without one, `tidemill lineage show PIPELINE --since MOMENT` prints "
        "the events",
    )
