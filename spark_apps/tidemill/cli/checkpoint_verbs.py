"""The verbs of `tidemill checkpoint` that change a pipeline's generation, offsets or files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import plan_words
from tidemill.cli.output import print_json, print_table, say
from tidemill.cli.verb_command import VerbCall, VerbParts, verb_command

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
Partitions = Annotated[int, typer.Argument(min=1, help="Number of partitions, as in the pipeline file.")]
Fork = Annotated[str, typer.Argument(help="Name of the fork: a pipeline file with tables of its own.")]
Batch = Annotated[
    int | None, typer.Option(min=0, help="Last batch that both share. Default: the newest committed one.")
]
Generations = Annotated[int, typer.Option(min=0, help="Old generations that stay.")]
Backups = Annotated[int, typer.Option(min=1, help="Complete backups that stay.")]
Records = Annotated[int, typer.Option(min=1, help="Receipts, epochs and journal entries that stay, each.")]
TrashDays = Annotated[float, typer.Option(min=0, help="Days until trash is deleted.")]


def add_to(group: typer.Typer) -> None:
    """Register the verbs, in the order of the help."""
    verb_command(
        group, "Take tables, offsets and state to a batch together; what follows is computed again."
    )(rewind)
    verb_command(group, "Go back to a backup: checkpoint and tables together.")(restore)
    verb_command(group, "Begin anew from offsets or a moment; tables stay, state is lost.")(reset)
    verb_command(group, "Say that changed code, or a changed declaration, is meant.")(acknowledge)
    verb_command(group, "Write overwritten or torn offsets again, as the ledger has them.")(repair)
    verb_command(group, "Rewrite the state into another number of partitions; tables and offsets stay.")(
        repartition
    )
    verb_command(group, "Copy checkpoint and tables for a shadow or a rehearsal; the original may run on.")(
        fork
    )
    verb_command(
        group,
        "Move old generations, backups and records to the trash; may run beside a stream.",
        reason="hygiene",
    )(prune)


def rewind(call: VerbCall, to: To = "", generation: Generation = "") -> VerbParts:
    """Tables, offsets and state together to a batch."""
    from tidemill.checkpoint.verbs.rewind import parse_target, plan_rewind, rewind_steps
    from tidemill.control.spark_part import restoring
    from tidemill.sources.topic_facts import with_topics_if_told
    from tidemill.storage.store import Store

    pipeline = call.resolved()
    store, target = Store(pipeline.layout.root), parse_target(to, generation)
    return VerbParts(
        pipeline,
        lambda: plan_rewind(store, pipeline, target, with_topics_if_told),
        lambda request, plan: rewind_steps(store, pipeline, request, plan, restoring(pipeline)),
        plan_words.rewind_lines,
    )


def restore(call: VerbCall, backup: Backup = "", from_environment: FromEnvironment = "") -> VerbParts | None:
    """Back to a backup."""
    from tidemill.checkpoint.verbs.backup_manifest import read_manifest, read_manifests
    from tidemill.checkpoint.verbs.restore import Backup, plan_restore, restore_steps
    from tidemill.control.spark_part import restoring
    from tidemill.sources.topic_facts import with_topics_if_told
    from tidemill.storage.store import Store

    pipeline = call.resolved()
    layout = call.invocation.environment(from_environment).layout if from_environment else pipeline.layout
    place = Store(layout.root)
    if not backup:
        _show_backups(read_manifests(place, layout, pipeline.name), call.as_json)
        return None
    store = Store(pipeline.layout.root)
    found = Backup(place, layout, read_manifest(place, layout, pipeline.name, backup))
    return VerbParts(
        pipeline,
        lambda: plan_restore(store, pipeline, found, with_topics_if_told),
        lambda request, plan: restore_steps(store, pipeline, request, plan, (found, restoring(pipeline))),
        plan_words.restore_lines,
    )


def reset(call: VerbCall, start: Start) -> VerbParts:
    """A new beginning."""
    from tidemill.checkpoint.verbs.reset import plan_reset, reset_steps
    from tidemill.control.spark_part import restoring
    from tidemill.sources.starting_positions import starting_positions
    from tidemill.sources.topic_facts import with_topics_if_told
    from tidemill.storage.store import Store

    pipeline = call.resolved()
    store = Store(pipeline.layout.root)
    asked = not start.lstrip().startswith("{")
    return VerbParts(
        pipeline,
        lambda: plan_reset(
            store, pipeline, (starting_positions(pipeline, start), asked), with_topics_if_told
        ),
        lambda request, plan: reset_steps(store, pipeline, request, plan, restoring(pipeline)),
        plan_words.reset_lines,
    )


def acknowledge(call: VerbCall) -> VerbParts:
    """The live generation goes on with what was changed."""
    from tidemill.checkpoint.verbs.acknowledge import acknowledge_steps, plan_acknowledge
    from tidemill.storage.store import Store

    pipeline = call.resolved()
    store = Store(pipeline.layout.root)
    return VerbParts(
        pipeline,
        lambda: plan_acknowledge(store, pipeline),
        lambda request, plan: acknowledge_steps(store, pipeline, request, plan),
        plan_words.acknowledge_lines,
        forbids_starts=False,
        has_work=lambda plan: bool(plan["changed"]),
    )


def repair(call: VerbCall) -> VerbParts:
    """`offsets/` as the ledger says."""
    from tidemill.checkpoint.verbs.repair import gather_repair, plan_repair, repair_steps
    from tidemill.storage.store import Store

    pipeline = call.resolved()
    store = Store(pipeline.layout.root)
    return VerbParts(
        pipeline,
        lambda: plan_repair(gather_repair(store, pipeline)),
        lambda request, plan: repair_steps(store, pipeline.layout, request, plan),
        plan_words.repair_lines,
        has_work=lambda plan: bool(plan["files"]),
    )


def repartition(call: VerbCall, partitions: Partitions) -> VerbParts:
    """Another number of state partitions."""
    from tidemill.checkpoint.verbs.repartition import plan_repartition, repartition_steps
    from tidemill.control.spark_part import repartitioning, restoring
    from tidemill.storage.store import Store

    pipeline = call.resolved()
    store = Store(pipeline.layout.root)
    return VerbParts(
        pipeline,
        lambda: plan_repartition(store, pipeline, partitions),
        lambda request, plan: repartition_steps(
            store, pipeline, request, plan, (repartitioning(pipeline), restoring(pipeline))
        ),
        plan_words.repartition_lines,
    )


def fork(call: VerbCall, fork: Fork, batch: Batch = None) -> VerbParts:
    """Another pipeline goes on from where this one stands; journal and hold are the fork's."""
    from tidemill.checkpoint.verbs.fork import fork_steps, plan_fork
    from tidemill.sources.topic_facts import with_topics_if_told
    from tidemill.storage.store import Store

    origin, forked = call.resolved(), call.resolved(fork)
    store = Store(origin.layout.root)
    return VerbParts(
        forked,
        lambda: plan_fork(store, (origin, forked), batch, with_topics_if_told),
        lambda request, plan: fork_steps(store, forked, request, plan),
        plan_words.fork_lines,
    )


def prune(
    call: VerbCall,
    generations: Generations = 2,
    backups: Backups = 3,
    records: Records = 100,
    trash_days: TrashDays = 7,
) -> VerbParts:
    """What nobody needs any more goes to the trash."""
    from tidemill.checkpoint.verbs.prune import Keep, gather_prune, plan_prune, prune_steps
    from tidemill.storage.store import Store

    pipeline = call.resolved()
    store = Store(pipeline.layout.root)
    keep = Keep(generations, backups, records, timedelta(days=trash_days))
    return VerbParts(
        pipeline,
        lambda: plan_prune(gather_prune(store, pipeline), keep),
        lambda request, plan: prune_steps(store, pipeline.layout, request, plan),
        plan_words.prune_lines,
        forbids_starts=False,
        has_work=lambda plan: bool(plan["moves"] or plan["deletes"]),
        then=("checkpoint", "doctor"),
    )


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
