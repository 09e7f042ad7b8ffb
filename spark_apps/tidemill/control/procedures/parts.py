"""The specific parts of each `checkpoint` operation: its plan, its steps, its text.

Each function takes the pipeline and the operation's own arguments. Facts are gathered when `make_plan` is
called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidemill.control.procedures import plan_words

if TYPE_CHECKING:
    from tidemill.checkpoint.procedure.carry_out import Request, Step
    from tidemill.checkpoint.warm_start import WarmStart
    from tidemill.control.plane import ControlPlane
    from tidemill.spec.project import Pipeline
    from tidemill.storage.advance import Told
    from tidemill.storage.store import Store

# Broker answers may change between plan and execution; they are not part of the decision.
_TOLD = frozenset({"unanswered"})
# For a reset, the position of `latest` or of a time may also change. The offsets of the plan are used.
_WHERE_IT_BEGINS = frozenset(
    {"start", "folders", "partitions", "never_read", "read_again", "read_again_if_copied", "warm"}
)


@dataclass(frozen=True)
class VerbParts:
    """The specific parts of one operation.

    Args:
        pipeline: The pipeline that the operation changes, whose journal and hold are used.
        make_plan: Gathers facts and decides; returns plain data. Raises if the operation refuses. Writes
            nothing.
        steps: Returns the steps, from the plan alone; steps that copy report their progress.
        lines: Returns the plan in readable form.
        forbids_starts: False for an operation that may run next to a live stream; then the gate is not asked.
        has_work: Returns True if the plan changes anything; otherwise it is not carried out.
        consent: Raises if the plan loses data without consent. Called before any change; the plan can be read
            without consent.
        then: The next command, without the pipeline; by default the pipeline is started.
        unsettled: Keys of the plan that may change before it is carried out.
    """

    pipeline: Pipeline
    make_plan: Callable[[], Mapping[str, Any]]
    steps: Callable[[Request, Mapping[str, Any], Told], tuple[Step, ...]]
    lines: Callable[[Mapping[str, Any]], list[str]]
    forbids_starts: bool = True
    has_work: Callable[[Mapping[str, Any]], bool] = lambda _: True
    consent: Callable[[Mapping[str, Any]], None] = lambda _: None
    then: tuple[str, ...] = ()
    unsettled: frozenset[str] = _TOLD


def rewind(pipeline: Pipeline, to: str = "", generation: str = "") -> VerbParts:
    """Return the parts of `rewind`: tables, offsets and state go back to a batch together."""
    from tidemill.checkpoint.verbs.rewind import parse_target, plan_rewind, rewind_steps
    from tidemill.control.spark_part import restoring
    from tidemill.sources.topic_facts import with_topics_if_told
    from tidemill.storage.store import Store

    store, target = Store(pipeline.layout.root), parse_target(to, generation)
    return VerbParts(
        pipeline,
        lambda: plan_rewind(store, pipeline, target, with_topics_if_told),
        lambda request, plan, told: rewind_steps(store, pipeline, request, plan, restoring(pipeline), told),
        plan_words.rewind_lines,
    )


def restore(pipeline: Pipeline, backup: str, from_environment: str = "") -> VerbParts:
    """Return the parts of `restore`: the pipeline goes back to a backup."""
    from tidemill.checkpoint.verbs.backup_manifest import read_manifest
    from tidemill.checkpoint.verbs.restore import Backup, plan_restore, restore_steps
    from tidemill.control.spark_part import restoring
    from tidemill.sources.topic_facts import with_topics_if_told
    from tidemill.spec.project import load_environment
    from tidemill.storage.access import open_storage
    from tidemill.storage.store import Store

    environment = pipeline.environment
    if from_environment:
        environment = load_environment(environment.project, from_environment)
        open_storage(environment)
    layout = environment.layout
    place, store = Store(layout.root), Store(pipeline.layout.root)
    found = Backup(place, layout, read_manifest(place, layout, pipeline.name, backup))
    return VerbParts(
        pipeline,
        lambda: plan_restore(store, pipeline, found, with_topics_if_told),
        lambda request, plan, told: restore_steps(
            store, pipeline, request, plan, (found, restoring(pipeline)), told
        ),
        plan_words.restore_lines,
    )


def reset(
    pipeline: Pipeline,
    start: str,
    warm: bool = False,
    without_missing: bool = False,
    skip_unread: bool = False,
) -> VerbParts:
    """Return the parts of `reset`: a new beginning; a warm one first computes its state from past records."""
    from tidemill.checkpoint.verbs.beginning import check_unread
    from tidemill.checkpoint.verbs.reset import Wanted, plan_reset, reset_steps
    from tidemill.control.spark_part import restoring
    from tidemill.names import SOURCE_NAME
    from tidemill.sources.starting_positions import starting_positions
    from tidemill.sources.topic_facts import with_topics_if_told
    from tidemill.storage.store import Store

    store = Store(pipeline.layout.root)
    asked = not start.lstrip().startswith("{")

    def plan() -> Mapping[str, Any]:
        if not warm:
            begins = Wanted(starting_positions(pipeline, start), asked, without_missing=without_missing)
            return plan_reset(store, pipeline, begins, with_topics_if_told)
        past = _past(pipeline, store, start)
        return plan_reset(store, pipeline, Wanted({SOURCE_NAME: past.end}, warm=past), with_topics_if_told)

    return VerbParts(
        pipeline,
        plan,
        lambda request, plan, _: reset_steps(store, pipeline, request, plan, restoring(pipeline)),
        plan_words.reset_lines,
        consent=lambda plan: None if skip_unread else check_unread(pipeline.name, plan),
        unsettled=_TOLD | _WHERE_IT_BEGINS if asked else _TOLD,
    )


def _past(pipeline: Pipeline, store: Store, start: str) -> WarmStart:
    from tidemill.backfill.warm_plan import plan_warm_start
    from tidemill.control.plane import open_control_plane
    from tidemill.control.spark_part import analysing

    return plan_warm_start(
        store, pipeline, start, analysing(open_control_plane(pipeline.environment), pipeline)
    )


def acknowledge(pipeline: Pipeline) -> VerbParts:
    """Return the parts of `acknowledge`: the live generation continues with changed code or declaration."""
    from tidemill.checkpoint.verbs.acknowledge import acknowledge_steps, plan_acknowledge
    from tidemill.control.plane import open_control_plane
    from tidemill.control.upgrade_check import check_state
    from tidemill.storage.store import Store

    store = Store(pipeline.layout.root)
    return VerbParts(
        pipeline,
        lambda: plan_acknowledge(
            store, pipeline, lambda: check_state(open_control_plane(pipeline.environment), pipeline)
        ),
        lambda request, plan, _: acknowledge_steps(store, pipeline, request, plan),
        plan_words.acknowledge_lines,
        forbids_starts=False,
        has_work=lambda plan: bool(plan["changed"]),
    )


def repair(pipeline: Pipeline) -> VerbParts:
    """Return the parts of `repair`: `offsets/` are rewritten from the ledger."""
    from tidemill.checkpoint.verbs.repair import gather_repair, plan_repair, repair_steps
    from tidemill.storage.store import Store

    store = Store(pipeline.layout.root)
    return VerbParts(
        pipeline,
        lambda: plan_repair(gather_repair(store, pipeline)),
        lambda request, plan, _: repair_steps(store, pipeline.layout, request, plan),
        plan_words.repair_lines,
        has_work=lambda plan: bool(plan["files"]),
    )


def repartition(pipeline: Pipeline, partitions: int) -> VerbParts:
    """Return the parts of `repartition`: the state gets another number of partitions."""
    from tidemill.checkpoint.verbs.repartition import plan_repartition, repartition_steps
    from tidemill.control.spark_part import repartitioning, restoring
    from tidemill.storage.store import Store

    store = Store(pipeline.layout.root)
    return VerbParts(
        pipeline,
        lambda: plan_repartition(store, pipeline, partitions),
        lambda request, plan, told: repartition_steps(
            store, pipeline, request, plan, (repartitioning(pipeline), restoring(pipeline)), told
        ),
        plan_words.repartition_lines,
    )


def fork(pipeline: Pipeline, fork: str, batch: int | None = None) -> VerbParts:
    """Return the parts of `fork`: another pipeline continues from this one's state.

    Journal and hold are the fork's.
    """
    from tidemill.spec.project import resolve_pipeline

    return fork_into(pipeline, resolve_pipeline(pipeline.environment, fork), batch)


def fork_into(pipeline: Pipeline, forked: Pipeline, batch: int | None = None) -> VerbParts:
    """Return the parts of `fork` for a resolved fork, which may have its own root inside the pipeline's."""
    from tidemill.checkpoint.verbs.fork import fork_steps, plan_fork
    from tidemill.sources.topic_facts import with_topics_if_told
    from tidemill.storage.store import Store

    store, pipelines = Store(pipeline.layout.root), (pipeline, forked)
    return VerbParts(
        forked,
        lambda: plan_fork(store, pipelines, batch, with_topics_if_told),
        lambda request, plan, told: fork_steps(store, pipelines, request, plan, told),
        plan_words.fork_lines,
    )


def prune(
    pipeline: Pipeline, generations: int = 2, backups: int = 3, records: int = 100, trash_days: float = 7
) -> VerbParts:
    """Return the parts of `prune`: unneeded data is moved to the trash."""
    from tidemill.checkpoint.verbs.prune import Keep, gather_prune, plan_prune, prune_steps
    from tidemill.storage.store import Store

    store = Store(pipeline.layout.root)
    keep = Keep(generations, backups, records, timedelta(days=trash_days))
    return VerbParts(
        pipeline,
        lambda: plan_prune(gather_prune(store, pipeline), keep),
        lambda request, plan, _: prune_steps(store, pipeline.layout, request, plan),
        plan_words.prune_lines,
        forbids_starts=False,
        has_work=lambda plan: bool(plan["moves"] or plan["deletes"]),
        then=("checkpoint", "doctor"),
    )


def clean(plane: ControlPlane, pipeline: Pipeline) -> VerbParts:
    """Return the parts of `clean`: files that were read and are not needed are archived or deleted."""
    from tidemill.checkpoint.verbs.clean import clean_steps, plan_clean
    from tidemill.control.source_files import why_left

    store = plane.store
    return VerbParts(
        pipeline,
        lambda: plan_clean(store, pipeline, why_left(plane, pipeline)),
        lambda request, plan, _: clean_steps(
            store, pipeline, request, plan, lambda: why_left(plane, pipeline)
        ),
        plan_words.clean_lines,
        forbids_starts=False,
        has_work=lambda plan: any(stream["files"] for stream in plan["streams"].values()),
        then=("ledger",),
    )


# The `checkpoint` operations that have a plan with steps, a journal and a hold.
PROCEDURES: Mapping[str, Callable[..., VerbParts]] = {
    verb.__name__: verb for verb in (rewind, restore, reset, acknowledge, repair, repartition, fork, prune)
}
