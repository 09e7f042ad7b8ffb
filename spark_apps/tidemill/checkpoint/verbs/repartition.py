"""`repartition`: a new generation with another number of state partitions.

Spark fixes `shuffle_partitions` when a checkpoint is created and silently ignores later changes. Spark's own
tool rewrites the state as an extra batch that reads nothing. Tidemill runs it in a copy, and the new
generation begins after this batch, which no table needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.generation_copy import copy_checkpoint
from tidemill.checkpoint.verbs.go_back import NewGeneration, plan_of_prospect, restoring
from tidemill.checkpoint.verbs.prospect import Origin, look_ahead, never_ran, origin_of
from tidemill.checkpoint.verbs.tables import read_tables
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.table_restore import RestoreTable
from tidemill.spec.project import Pipeline
from tidemill.spec.state_store import PROVIDER_SETTING, PROVIDERS
from tidemill.storage.advance import Told, nobody_told
from tidemill.storage.store import Store

PINNED_PARTITIONS = "spark.sql.shuffle.partitions"

# Repartitions the state of a checkpoint directory by adding a batch. Only Spark can do this.
RepartitionState = Callable[[str, int], None]


def plan_repartition(store: Store, pipeline: Pipeline, partitions: int) -> dict[str, Any]:
    """Return the plan of the new generation.

    Raises:
        UsageError: TIDE-CKPT-076 if the pipeline has never run, -081 if there is nothing to do or the
            pipeline file has another number.
        GateRefusedError: TIDE-CKPT-082 if a batch was begun and not finished; as `look_ahead`.
    """
    live = read_current(store, pipeline.layout, pipeline.name)
    if live is None:
        raise never_ran(pipeline.name)
    origin = origin_of(store, pipeline, live)
    pinned = _check_wanted(pipeline, origin, partitions)
    last = _check_finished(pipeline, origin)
    # Check with the old number of partitions, because the changed number is the purpose of the operation.
    run = pipeline.spec.run.model_copy(update={"shuffle_partitions": pinned})
    as_before = replace(pipeline, spec=pipeline.spec.model_copy(update={"run": run}))
    plan = plan_of_prospect(look_ahead(as_before, origin, live, last, lambda facts, _: (facts, "not needed")))
    return {
        **plan,
        "begins_after": last + 1,
        "partitions": partitions,
        "partitions_before": pinned,
        "tables": {
            name: _after_sparks_batch(table, last, partitions) for name, table in plan["tables"].items()
        },
    }


def repartition_steps(  # noqa: PLR0913  # plan arguments, actions and progress callback
    store: Store,
    pipeline: Pipeline,
    request: Request,
    plan: Mapping[str, Any],
    acts: tuple[RepartitionState, RestoreTable],
    told: Told = nobody_told,
) -> tuple[Step, ...]:
    """Return the core's steps; the state is rewritten in the copy, where Spark adds its batch."""
    repartition_state, restore = acts
    parent = pipeline.layout.checkpoint(request.pipeline, plan["parent"])

    def fill(folder: str, query_id: str) -> None:
        copy_checkpoint(CheckpointReader(store, parent), plan["batch_id"], (folder, query_id), told)
        repartition_state(folder, plan["partitions"])

    return NewGeneration(store, pipeline.layout, request, plan).steps(fill, restoring(restore))


def _after_sparks_batch(table: Mapping[str, Any], last: int, partitions: int) -> dict[str, Any]:
    """Return the table with Spark's extra batch as its newest, which has no rows."""
    shape = {**table["base"]["shape"], "shuffle_partitions": partitions}
    return {**table, "base": {**table["base"], "batch_id": last + 1, "shape": shape}}


def _check_wanted(pipeline: Pipeline, origin: Origin, partitions: int) -> int:
    planned = origin.reader.offset_ids
    newest = origin.reader.offsets(planned[-1]) if planned else None
    told = None if newest is None else newest.conf.get(PINNED_PARTITIONS)
    pinned = None if told is None else int(told)
    declared = pipeline.spec.run.shuffle_partitions
    problem, fix = (
        "",
        "write the wanted number into the pipeline file, under `run`, and name the same number here",
    )
    if not origin.reader.state.stores or pinned is None:
        problem = "the pipeline keeps no state"
    elif pinned == partitions:
        problem = "its state has this number of partitions"
    elif newest is not None and newest.conf.get(PROVIDER_SETTING) == PROVIDERS["memory"]:
        problem = "Spark rewrites the state of `rocksdb` only, and its own is in `memory`"
        fix = f"take the change back, or tidemill checkpoint reset {pipeline.name} --from earliest"
    elif declared != partitions:
        problem = f"its file says shuffle_partitions: {declared}"
    if problem or pinned is None:
        raise UsageError(
            "TIDE-CKPT-081",
            f"The state cannot be repartitioned like this: {problem}. Nothing was changed.",
            facts={
                "pipeline": pipeline.name,
                "partitions": partitions,
                "in_file": declared,
                "in_checkpoint": pinned,
            },
            fix=fix,
            runbook="repartition",
        )
    return pinned


def _check_finished(pipeline: Pipeline, origin: Origin) -> int:
    """Return the newest batch, which must be finished in the checkpoint and in all tables."""
    entries = (table.newest_entry(origin.side) for table in read_tables(pipeline).values())
    written = [e.batch_id for e in entries if e is not None and e.batch_id is not None]
    finished = max(origin.reader.commit_ids, default=-1)
    begun = max([*origin.reader.offset_ids, *written], default=-1)
    if begun > finished:
        raise GateRefusedError(
            "TIDE-CKPT-082",
            "A batch was begun and not finished. Nothing was changed. "
            "Spark would leave it out of the rewritten state.",
            facts={"pipeline": pipeline.name, "begun": begun, "finished": finished},
            fix="set shuffle_partitions back, start the pipeline, and stop it; it finishes the batch",
            runbook="repartition",
        )
    return finished
