"""`tidemill ledger`: what each committed batch did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.names import catalogued_name

if TYPE_CHECKING:
    from tidemill.ledger.entry import LedgerEntry
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
    catalog = resolved.environment.spec.catalog
    commits = [
        (catalogued_name(catalog, sink.table), commit)
        for sink in resolved.spec.delta_sinks
        for commit in read_ledger(resolved.layout.table(sink.table), limit)
        if commit.entry is not None and commit.entry.pipeline == pipeline
    ]
    commits.sort(key=lambda found: found[1].committed_at, reverse=True)
    if as_json:
        print_json([_document(table, commit) for table, commit in commits])
    elif commits:
        counts = ("rows", "quarantined", "late", "no event time", "violations")
        ran = ("mode", "batch", *counts, "columns added", "watermark", "run")
        with_models = any(_models(commit) for _, commit in commits)
        headings = ["committed (UTC)", "table", "version", *ran, *(["models"] if with_models else [])]
        rows = [[*_row(table, commit), _models(commit)] for table, commit in commits]
        print_table(headings, (row[: len(headings)] for row in rows))
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


def _models(commit: Commit) -> str:
    used = None if commit.entry is None else commit.entry.code.models
    return ", ".join(f"{name}: {model}" for name, model in (used or {}).items())


def _row(table: str, commit: Commit) -> tuple[object, ...]:
    entry = commit.entry
    if entry is None:
        return commit.committed_at, table, commit.version, None, None, commit.rows, *7 * (None,)
    aside = (entry.quarantined_rows, entry.late_rows, entry.no_event_time_rows)
    counts = (commit.rows, *aside, _violations(entry))
    added = ", ".join(entry.columns_added or ())
    ran = (entry.mode, entry.batch_id, *counts, added, entry.watermark, entry.run_id)
    return commit.committed_at, table, commit.version, *ran


def _violations(entry: LedgerEntry) -> str:
    """Rows that violate each expectation, by its name; without those that all rows fulfil."""
    found = {} if entry.expectations is None else entry.expectations.violations
    return ", ".join(f"{name} {count}" for name, count in found.items() if count)
