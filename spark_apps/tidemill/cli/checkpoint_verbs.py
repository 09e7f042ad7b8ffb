"""The verbs of `tidemill checkpoint` that change a pipeline's generation, offsets or files."""

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
        help="Last batch that stays (118), a version of the first table (v42), or a moment "
        "(2026-11-20T14:00:00Z) after which nothing stays. With --generation: its newest batch."
    ),
]
Generation = Annotated[
    str,
    typer.Option(
        help="Go on from this older generation, e.g. g0001: undoes a rewind. Default: the live one."
    ),
]
Backup = Annotated[str, typer.Argument(help="Name of the backup; without one, all are shown.")]
FromEnvironment = Annotated[
    str, typer.Option("--from-env", help="Environment whose storage holds the backup. Default: this one.")
]
Start = Annotated[
    str,
    typer.Option(
        "--from",
        help='earliest, latest, a moment (ISO 8601), or offsets: {"topic": {"0": 5}}.',
        show_default=False,
    ),
]
WithoutMissing = Annotated[
    bool, typer.Option("--without-missing", help="Go without files that were read before and are gone.")
]
SkipUnread = Annotated[
    bool,
    typer.Option(
        "--skip-unread", help="Never read records that were not read yet, where --from is behind them."
    ),
]
Warm = Annotated[
    bool,
    typer.Option(
        "--warm",
        help="Go on where the tables stand, with state computed from what was read since --from: earliest, "
        "or a moment. Of the broker, and of the hub's archive.",
    ),
]
Partitions = Annotated[int, typer.Argument(min=1, help="Number of partitions, as in the pipeline file.")]
Fork = Annotated[str, typer.Argument(help="Name of the fork: a pipeline file with tables of its own.")]
Batch = Annotated[
    int | None, typer.Option(min=0, help="Last batch that both share. Default: the newest committed one.")
]
Generations = Annotated[int, typer.Option(min=0, help="Old generations that stay.")]
Backups = Annotated[int, typer.Option(min=1, help="Complete backups that stay.")]
Records = Annotated[
    int,
    typer.Option(min=1, help="Receipts, epochs, journal entries and listings of joined folders that stay."),
]
TrashDays = Annotated[float, typer.Option(min=0, help="Days until trash is deleted.")]


def add_to(group: typer.Typer) -> None:
    """Register the verbs, in the order of the help."""
    for verb in (rewind, restore, reset, acknowledge, repair, repartition, fork):
        verb_command(group)(verb)
    verb_command(group, reason="hygiene")(prune)


def rewind(call: VerbCall, to: To = "", generation: Generation = "") -> VerbParts:
    """Tables, offsets and state together to a batch."""
    return parts.rewind(call.resolved(), to, generation)


def restore(call: VerbCall, backup: Backup = "", from_environment: FromEnvironment = "") -> VerbParts | None:
    """Back to a backup."""
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
    """A new beginning."""
    return parts.reset(call.resolved(), start, warm, without_missing, skip_unread)


def acknowledge(call: VerbCall) -> VerbParts:
    """The live generation goes on with what was changed."""
    return parts.acknowledge(call.resolved())


def repair(call: VerbCall) -> VerbParts:
    """`offsets/` as the ledger says."""
    return parts.repair(call.resolved())


def repartition(call: VerbCall, partitions: Partitions) -> VerbParts:
    """Another number of state partitions."""
    return parts.repartition(call.resolved(), partitions)


def fork(call: VerbCall, fork: Fork, batch: Batch = None) -> VerbParts:
    """Another pipeline goes on from where this one stands."""
    return parts.fork(call.resolved(), fork, batch)


def prune(
    call: VerbCall,
    generations: Generations = 2,
    backups: Backups = 3,
    records: Records = 100,
    trash_days: TrashDays = 7,
) -> VerbParts:
    """What nobody needs any more goes to the trash."""
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
