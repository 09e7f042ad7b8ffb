"""`tidemill checkpoint backup`: a copy of the checkpoint, also of a live stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, say
from tidemill.cli.procedure_run import Apply, AsJson, By, Name, Reason, asking_person

if TYPE_CHECKING:
    from tidemill.checkpoint.verbs.backup_manifest import Manifest


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(backup)


def backup(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    apply: Apply = False,
    reason: Reason = "backup",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Copy the live checkpoint; the stream may go on meanwhile."""
    from tidemill.checkpoint.verbs.backup import BackupRequest, plan_backup, take_backup
    from tidemill.storage.store import Store

    resolved = invocation_of(context).pipeline(pipeline)
    store = Store(resolved.layout.root)
    plan = plan_backup(store, resolved)
    if not apply:
        if as_json:
            print_json({"applied": False, "plan": plan})
        else:
            size = f"{plan['files']} files, {plan['bytes']} bytes"
            say(f"would copy {size}: batch {plan['batch_id']}, or a newer one by then")
            say("Nothing was done. With --apply it is carried out.")
        return
    request = BackupRequest(asking_person(by), reason, datetime.now(UTC))
    taken = take_backup(store, resolved, request)
    if as_json:
        print_json({"applied": True, **taken.model_dump(mode="json", exclude={"files"}), "bytes": taken.size})
    else:
        for line in _lines(taken):
            say(line)


def _lines(taken: Manifest) -> list[str]:
    tables = [f"{table}: version {'none' if v is None else v}" for table, v in taken.tables.items()]
    return [
        f"backup {taken.backup}: {taken.generation} at batch {taken.batch_id}, "
        f"{len(taken.files)} files, {taken.size} bytes",
        *tables,
    ]
