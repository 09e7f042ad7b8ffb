"""`tidemill checkpoint backup`: a copy of the checkpoint, also of a live stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from tidemill.cli.output import print_json, say
from tidemill.cli.verb_command import VerbCall, asking_person, verb_command

if TYPE_CHECKING:
    from tidemill.checkpoint.verbs.backup_manifest import Manifest


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    text = "Copy the live checkpoint; the stream may go on meanwhile."
    verb_command(group, text, ("apply", "reason", "by", "as_json"), reason="backup")(backup)


def backup(call: VerbCall) -> None:
    """Copy the live checkpoint."""
    from tidemill.checkpoint.verbs.backup import BackupRequest, plan_backup, take_backup
    from tidemill.storage.store import Store

    resolved = call.resolved()
    store = Store(resolved.layout.root)
    plan = plan_backup(store, resolved)
    if not call.apply:
        if call.as_json:
            print_json({"applied": False, "plan": plan})
        else:
            size = f"{plan['files']} files, {plan['bytes']} bytes"
            say(f"would copy {size}: batch {plan['batch_id']}, or a newer one by then")
            say(f"Nothing was done. To carry it out: {call.command('--reason', 'TEXT', '--apply')}")
        return
    call.invocation.control_plane().own()
    taken = take_backup(
        store, resolved, BackupRequest(asking_person(call.by), call.reason, datetime.now(UTC))
    )
    if call.as_json:
        print_json({"applied": True, **taken.model_dump(mode="json", exclude={"files"}), "bytes": taken.size})
        return
    for line in _lines(taken):
        say(line)
    back = call.invocation.command("checkpoint", "restore", call.pipeline, taken.backup)
    say(f"Next, to go back to it some day: {back}")


def _lines(taken: Manifest) -> list[str]:
    tables = [f"{name}: version {table.version}" for name, table in taken.tables.items()]
    return [
        f"backup {taken.backup}: {taken.generation} at batch {taken.batch_id}, "
        f"{len(taken.files)} files, {taken.size} bytes",
        *tables,
    ]
