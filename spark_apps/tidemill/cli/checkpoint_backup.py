"""`tidemill checkpoint backup`: copy the checkpoint, also while the stream runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tidemill.cli.output import print_json, say
from tidemill.cli.verb_command import VerbCall, verb_command
from tidemill.control.procedures import by_hand

if TYPE_CHECKING:
    from tidemill.checkpoint.verbs.backup_manifest import Manifest


def add_to(group: typer.Typer) -> None:
    """Register the command."""
    verb_command(group, ("apply", "reason", "by", "as_json"), reason="backup")(backup)


def backup(call: VerbCall) -> None:
    """Copy the live checkpoint."""
    from tidemill.checkpoint.verbs.backup import plan_backup
    from tidemill.storage.store import Store

    resolved = call.resolved()
    plan = plan_backup(Store(resolved.layout.root), resolved)
    if not call.apply:
        if call.as_json:
            print_json({"applied": False, "plan": plan})
        else:
            size = f"{plan['files']} files, {plan['bytes']} bytes"
            say(f"would copy {size}: batch {plan['batch_id']}, or a newer one by then")
            acting = call.invocation.command(
                "checkpoint", "backup", call.pipeline, "--reason", "TEXT", "--apply"
            )
            say(f"Nothing was done. To carry it out: {acting}")
        return
    with call.bars as bars:
        taken = by_hand.back_up(call.invocation.control_plane(), call.asking, resolved, bars.tell)
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
