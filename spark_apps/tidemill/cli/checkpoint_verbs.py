"""The operations of `tidemill checkpoint` that change a pipeline's generation, offsets or files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli.output import print_json, print_table, say
from tidemill.cli.verb_command import VerbCall, verb_command
from tidemill.control.procedures import parts
from tidemill.control.procedures.parts import VerbParts

if TYPE_CHECKING:
    from tidemill.checkpoint.verbs.backup_manifest import Manifest

To = Annotated[
    str,
    typer.Option(
        help="Last batch to keep (118), a version of the first table (v42), or a time "
        "(2026-11-20T14:00:00Z) up to which batches are kept. Default with --generation: its newest batch."
    ),
]
Generation = Annotated[
    str,
    typer.Option(
        help="Continue from this older generation, e.g. g0001, to undo a rewind. Default: the live one."
    ),
]
Backup = Annotated[str, typer.Argument(help="Name of the backup. Default: show all backups.")]
FromEnvironment = Annotated[
    str, typer.Option("--from-env", help="Environment whose storage has the backup. Default: this one.")
]
Start = Annotated[
    str,
    typer.Option(
        "--from",
        help='earliest, latest, a timestamp (ISO 8601), or offsets: {"topic": {"0": 5}}.',
        show_default=False,
    ),
]
WithoutMissing = Annotated[
    bool, typer.Option("--without-missing", help="Continue without files that were read and no longer exist.")
]
SkipUnread = Annotated[
    bool,
    typer.Option("--skip-unread", help="Skip unread records that are before --from."),
]
Warm = Annotated[
    bool,
    typer.Option(
        "--warm",
        help="Continue at the tables' position. Recompute the state from the records since --from (earliest "
        "or a timestamp), which are read from the broker and the hub's archive.",
    ),
]
Partitions = Annotated[int, typer.Argument(min=1, help="Number of partitions, as in the pipeline file.")]
Fork = Annotated[str, typer.Argument(help="Name of the fork, a pipeline file with separate tables.")]
Batch = Annotated[
    int | None, typer.Option(min=0, help="Last batch that both share. Default: the newest committed one.")
]
Generations = Annotated[int, typer.Option(min=0, help="Number of old generations to keep.")]
Backups = Annotated[int, typer.Option(min=1, help="Number of complete backups to keep.")]
Records = Annotated[
    int,
    typer.Option(
        min=1, help="Number of receipts, epochs, journal entries and joined folders' listings to keep, each."
    ),
]
TrashDays = Annotated[float, typer.Option(min=0, help="Days until trash is deleted.")]


def add_to(group: typer.Typer) -> None:
    """Register the commands, in the order of the help."""
    for verb in (rewind, restore, reset, acknowledge, repair, repartition, fork):
        verb_command(group)(verb)
    verb_command(group, reason="hygiene")(prune)


def rewind(call: VerbCall, to: To = "", generation: Generation = "") -> VerbParts:
    """Return the parts of a rewind of tables, offsets and state to a batch."""
    return parts.rewind(call.resolved(), to, generation)


def restore(call: VerbCall, backup: Backup = "", from_environment: FromEnvironment = "") -> VerbParts | None:
    """Return the parts of a restore, or show the backups if none is named."""
    from tidemill.checkpoint.verbs.backup_manifest import read_manifests
    from tidemill.storage.store import Store

    pipeline = call.resolved()
    if backup:
        return parts.restore(pipeline, backup, from_environment)
    layout = call.invocation.environment(from_environment).layout if from_environment else pipeline.layout
    _show_backups(read_manifests(Store(layout.root), layout, pipeline.name), call.as_json)
    return None


def reset(
    call: VerbCall,
    start: Start,
    warm: Warm = False,
    without_missing: WithoutMissing = False,
    skip_unread: SkipUnread = False,
) -> VerbParts:
    """Return the parts of a reset."""
    return parts.reset(call.resolved(), start, warm, without_missing, skip_unread)


def acknowledge(call: VerbCall) -> VerbParts:
    """Return the parts that let the live generation continue with a changed definition."""
    return parts.acknowledge(call.resolved())


def repair(call: VerbCall) -> VerbParts:
    """Return the parts that rewrite `offsets/` from the ledger."""
    return parts.repair(call.resolved())


def repartition(call: VerbCall, partitions: Partitions) -> VerbParts:
    """Return the parts that change the number of state partitions."""
    return parts.repartition(call.resolved(), partitions)


def fork(call: VerbCall, fork: Fork, batch: Batch = None) -> VerbParts:
    """Return the parts that make another pipeline continue from this one's position."""
    return parts.fork(call.resolved(), fork, batch)


def prune(
    call: VerbCall,
    generations: Generations = 2,
    backups: Backups = 3,
    records: Records = 100,
    trash_days: TrashDays = 7,
) -> VerbParts:
    """Return the parts that move unneeded files to the trash."""
    return parts.prune(call.resolved(), generations, backups, records, trash_days)


def _show_backups(manifests: list[Manifest], as_json: bool) -> None:
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
