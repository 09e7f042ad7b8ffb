"""`tidemill checkpoint restore`: go back to a backup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import Invocation, invocation_of
from tidemill.cli.output import print_json, print_table, say
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
    from tidemill.checkpoint.verbs.backup_manifest import Manifest
    from tidemill.checkpoint.verbs.restore import BackupPlace, RestoreFacts
    from tidemill.spec.project import Pipeline

Backup = Annotated[str | None, typer.Argument(help="Name of the backup; without one, all are shown.")]
FromEnvironment = Annotated[
    str, typer.Option("--from-env", help="Environment whose storage holds the backup. Default: this one.")
]


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(restore)


def restore(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    backup: Backup = None,
    from_environment: FromEnvironment = "",
    apply: Apply = False,
    reason: Reason = "",
    by: By = "",
    approved_by: ApprovedBy = "",
    request_id: RequestId = "",
    as_json: AsJson = False,
) -> None:
    """Go back to a backup: checkpoint and tables together."""
    from tidemill.checkpoint.verbs.backup_manifest import read_manifest, read_manifests
    from tidemill.checkpoint.verbs.restore import BackupPlace, plan_restore, restore_steps
    from tidemill.cli.spark_process import restoring
    from tidemill.storage.store import Store

    invocation = invocation_of(context)
    resolved = invocation.pipeline(pipeline)
    origin = _place_of(invocation, resolved, from_environment)
    if backup is None:
        _show(read_manifests(origin.store, origin.layout, pipeline), as_json)
        return
    manifest = read_manifest(origin.store, origin.layout, pipeline, backup)
    target = BackupPlace(Store(resolved.layout.root), resolved.layout)
    words = (backup, *(("--from-env", from_environment) if from_environment else ()))
    asked = Asked(invocation, "restore", pipeline, words, apply, by, reason, approved_by, request_id, as_json)
    parts = VerbParts(
        lambda: plan_restore(_facts(target, resolved, manifest)),
        lambda request, plan: restore_steps(target, request, plan, (origin, manifest), restoring(resolved)),
        _lines,
    )
    run_procedure(asked, resolved, parts)


def _place_of(invocation: Invocation, pipeline: Pipeline, environment: str) -> BackupPlace:
    from tidemill.checkpoint.verbs.restore import BackupPlace
    from tidemill.spec.project import load_environment
    from tidemill.storage.access import open_storage
    from tidemill.storage.store import Store

    layout = pipeline.layout
    if environment:
        other = load_environment(invocation.project(), environment)
        open_storage(other)
        layout = other.layout
    return BackupPlace(Store(layout.root), layout)


def _facts(target: BackupPlace, pipeline: Pipeline, manifest: Manifest) -> RestoreFacts:
    from tidemill.checkpoint.current import next_generation, read_current
    from tidemill.checkpoint.verbs.restore import RestoreFacts, TableToRestore
    from tidemill.checkpoint.verbs.table_points import table_paths
    from tidemill.ledger.read import read_commits

    return RestoreFacts(
        manifest,
        read_current(target.store, target.layout, pipeline.name),
        next_generation(target.store, target.layout, pipeline.name),
        tuple(TableToRestore(name, path, read_commits(path)) for name, path in table_paths(pipeline).items()),
    )


def _lines(plan: Mapping[str, Any]) -> list[str]:
    lines = [
        f"backup {plan['backup']} of {plan['taken_at']}: {plan['files']} files, {plan['bytes']} bytes",
        f"generation {plan['live'] or 'none'} -> {plan['generation']}",
        f"the stream goes on after batch {plan['batch_id']}",
    ]
    for table in plan["tables"]:
        if table["to"] is None:
            lines.append(f"{table['table']}: there is no table, as at the backup")
            continue
        rows = "an unknown number of" if table["rows_undone"] is None else table["rows_undone"]
        lines.append(
            f"{table['table']}: version {table['from']} -> {table['to']}; "
            f"{table['batches_undone']} batches, {rows} rows undone"
        )
    return lines


def _show(manifests: list[Manifest], as_json: bool) -> None:
    if as_json:
        print_json([m.model_dump(mode="json", exclude={"files"}) | {"bytes": m.size} for m in manifests])
    elif manifests:
        headings = ("backup", "taken (UTC)", "by", "generation", "batch", "files", "bytes", "why")
        rows = (
            (m.backup, m.taken_at, m.by, m.generation, m.batch_id, len(m.files), m.size, m.why)
            for m in reversed(manifests)
        )
        print_table(headings, rows)
    else:
        say("there are no backups")
