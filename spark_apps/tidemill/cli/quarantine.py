"""`tidemill quarantine list | show`: rejected records, and rows that violate expectations, with reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from tidemill.spec.project import Environment

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

# Maximum characters of a raw record in a table row. --json shows the whole record.
SHOWN_RAW_CHARACTERS = 200


def add_to(app: typer.Typer) -> None:
    """Register the group."""
    group = typer.Typer(
        help="Records that could not be decoded or transformed, and rows that violate an expectation.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("list")(list_reasons)
    group.command()(show)
    app.add_typer(group, name="quarantine")


def list_reasons(
    context: typer.Context,
    pipeline: Annotated[str | None, typer.Argument(help="Name of the pipeline. Default: all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Count rejected records by pipeline and reason."""
    from tidemill.ledger.quarantine_rows import count_reasons

    environment = invocation_of(context).environment()
    counts = [
        {"pipeline": name, **count}
        for name in _names(environment, pipeline)
        for count in count_reasons(environment.layout.quarantine(name))
    ]
    if as_json:
        print_json(counts)
    elif counts:
        print_table(
            ("pipeline", "reason", "records", "newest (UTC)"), (tuple(count.values()) for count in counts)
        )
    else:
        say("nothing is in quarantine")


def show(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of records to show.")] = 20,
    raw: Annotated[bool, typer.Option("--raw", help="Also show the content of the records.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show rejected records, newest first, with their place in the topic or file and the reason."""
    from tidemill.ledger.quarantine_rows import newest_rejected

    environment = invocation_of(context).environment()
    [name] = _names(environment, pipeline)
    rows = newest_rejected(environment.layout.quarantine(name), limit, raw=raw)
    if as_json:
        print_json(rows)
    elif rows:
        # Records of a topic have no file, and records of a file have no topic.
        names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
        print_table(tuple(names), (tuple(_short(row[name]) for name in names) for row in rows))
    else:
        say(f"nothing of {name} is in quarantine")


def _names(environment: Environment, pipeline: str | None) -> list[str]:
    if pipeline is None:
        return environment.project.pipeline_names()
    environment.project.pipeline_file(pipeline)
    return [pipeline]


def _short(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > SHOWN_RAW_CHARACTERS
    return value[:SHOWN_RAW_CHARACTERS] + "…" if is_long else value
