"""`tidemill ledger`: what each committed batch did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from tidemill.ledger.read import Commit


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command()(ledger)


def ledger(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    limit: Annotated[int, typer.Option(min=1, help="Most commits looked at of each table.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show committed batches, newest first."""
    from tidemill.ledger.read import read_ledger

    resolved = invocation_of(context).pipeline(pipeline)
    commits = [
        (sink.table, commit)
        for sink in resolved.spec.delta_sinks
        for commit in read_ledger(resolved.layout.table(sink.table), limit)
        if commit.entry is not None and commit.entry.pipeline == pipeline
    ]
    commits.sort(key=lambda found: found[1].committed_at, reverse=True)
    if as_json:
        print_json([_document(table, commit) for table, commit in commits])
    elif commits:
        headings = ("committed (UTC)", "table", "version", "mode", "batch", "rows", "watermark", "run")
        print_table(headings, (_row(table, commit) for table, commit in commits))
    else:
        say(f"{pipeline} has committed nothing yet")


def _document(table: str, commit: Commit) -> dict[str, Any]:
    entry = commit.entry
    return {
        "table": table,
        "version": commit.version,
        "committed_at": commit.committed_at,
        "rows": commit.rows,
        "entry": None if entry is None else entry.model_dump(mode="json", exclude_none=True),
    }


def _row(table: str, commit: Commit) -> tuple[object, ...]:
    entry = commit.entry
    ran = (None,) * 3 if entry is None else (entry.mode, entry.batch_id, entry.watermark)
    mode, batch_id, watermark = ran
    run_id = entry.run_id if entry is not None else None
    return commit.committed_at, table, commit.version, mode, batch_id, commit.rows, watermark, run_id
