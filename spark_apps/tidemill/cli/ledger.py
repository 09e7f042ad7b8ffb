"""`tidemill ledger`: the committed batches of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.names import catalogued_name
from tidemill.spec.readable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidemill.ledger.entry import LedgerEntry
    from tidemill.ledger.files_log import FilesCommit
    from tidemill.ledger.read import Commit
    from tidemill.spec.project import Pipeline


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(ledger)


def ledger(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of commits to read per table.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show committed batches, newest first."""
    resolved = invocation_of(context).pipeline(pipeline)
    catalog = resolved.environment.spec.catalog
    commits = [
        (catalogued_name(catalog, sink.table), commit, stands)
        for sink in resolved.spec.delta_sinks
        for commit, stands in _commits(resolved.layout.table(sink.table), limit)
        if commit.entry is not None and commit.entry.pipeline == pipeline
    ]
    commits.sort(key=lambda found: found[1].committed_at, reverse=True)
    folders = _folders(resolved, limit)
    if as_json:
        print_json([*(_document(*found) for found in commits), *map(_folder_document, folders)])
        return
    if commits:
        _print_commits(commits)
    if folders:
        print_table(
            ("committed (UTC)", "folder", "batch", "files", "bytes", "generation"), map(_folder_row, folders)
        )
    if not commits and not folders:
        say(_without_commits(resolved))


def _print_commits(commits: Sequence[tuple[str, Commit, bool]]) -> None:
    """Print a line per commit; columns that few pipelines fill are shown only if a commit has them."""
    counts = ("rows", "quarantined", "late", "no event time", "violations")
    ran = ("mode", "batch", *counts, "columns added", "watermark", "run")
    seldom = {
        "joined with": [_joined(commit) for _, commit, _ in commits],
        "models": [_models(commit) for _, commit, _ in commits],
        "taken back": ["" if stands else "yes" for _, _, stands in commits],
    }
    shown_too = {name: cells for name, cells in seldom.items() if any(cells)}
    print_table(
        ("committed (UTC)", "table", "version", *ran, *shown_too),
        (
            [*_row(table, commit), *cells]
            for (table, commit, _), *cells in zip(commits, *shown_too.values(), strict=True)
        ),
    )


def _without_commits(pipeline: Pipeline) -> str:
    """Describe the progress of a pipeline without ledger entries from its newest status."""
    from tidemill.checkpoint.status import read_status
    from tidemill.storage.store import Store

    status = read_status(Store(pipeline.layout.root), pipeline.layout, pipeline.name)
    if status is None or status.batch_committed_at is None:
        return f"{pipeline.name} has committed nothing yet"
    words = [f"{pipeline.name} committed batch {status.batch_id} at {shown(status.batch_committed_at)} UTC"]
    outputs = [sink.output for sink in pipeline.spec.sinks if sink.delta is None and sink.files is None]
    if outputs:
        words.append(
            f"{', '.join(outputs)} keeps no ledger; `tidemill queries show {pipeline.name}` has its counts"
        )
    if len(outputs) < len(pipeline.spec.sinks):
        words.append("no row of it reached a table or folder")
    return "; ".join(words)


def _folders(pipeline: Pipeline, limit: int) -> list[tuple[str, FilesCommit, str | None]]:
    """Return the commits of files sinks, newest first, with the generation of the checkpoint.

    Spark's log of a folder has no ledger entries, but it lists the files of each batch.
    """
    from tidemill.ledger.files_log import read_files_log

    found: list[tuple[str, FilesCommit, str | None]] = []
    for path in (sink.files.path for sink in pipeline.spec.sinks if sink.files is not None):
        log = read_files_log(pipeline.layout, path)
        for commit in [] if log is None else log.commits[:limit]:
            claim = None if log is None else log.claim_of(commit.batch_id)
            if claim is None or claim.pipeline == pipeline.name:
                found.append((f"files:{path}", commit, None if claim is None else claim.generation))
    return sorted(found, key=lambda one: one[1].committed_at, reverse=True)


def _folder_document(found: tuple[str, FilesCommit, str | None]) -> dict[str, Any]:
    output, commit, generation = found
    return {
        "table": output,
        "batch_id": commit.batch_id,
        "first_batch": commit.first_batch,
        "committed_at": commit.committed_at,
        "files": commit.files,
        "bytes": commit.size,
        "generation": generation,
    }


def _folder_row(found: tuple[str, FilesCommit, str | None]) -> tuple[object, ...]:
    output, commit, generation = found
    return commit.committed_at, output, commit.batches, len(commit.files), commit.size, generation


def _commits(path: str, limit: int) -> Iterator[tuple[Commit, bool]]:
    """Find the newest commits of a table, each with True if no later RESTORE or REPLACE took its rows out."""
    from tidemill.ledger.read import read_commits
    from tidemill.ledger.standing import standing_commits

    newest_first = read_commits(path, limit)
    standing = {commit.version for commit in standing_commits(newest_first)}
    return ((commit, commit.version in standing) for commit in newest_first)


def _document(table: str, commit: Commit, stands: bool) -> dict[str, Any]:
    entry = commit.entry
    return {
        "table": table,
        "version": commit.version,
        "committed_at": commit.committed_at,
        "rows": commit.rows,
        "stands": stands,
        "entry": None if entry is None else entry.model_dump(mode="json", exclude_none=True),
    }


def _joined(commit: Commit) -> str:
    """Version of each joined table, and files of each joined folder."""
    if commit.entry is None:
        return ""
    read = commit.entry.joined
    tables = [f"{name}: version {version}" for name, version in read.tables.items()]
    return "; ".join((*tables, *(f"{name}: {files}" for name, files in read.files.items())))


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
    """Return the number of violations per expectation, without those that all rows fulfil."""
    found = {} if entry.expectations is None else entry.expectations.violations
    return ", ".join(f"{name} {count}" for name, count in found.items() if count)
