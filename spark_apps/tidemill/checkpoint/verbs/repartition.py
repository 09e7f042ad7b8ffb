"""`repartition`: the state of a pipeline in another number of partitions, in a new generation.

Spark fixes `shuffle_partitions` at a checkpoint's birth and ignores a later change without a word. Its own
tool rewrites the state as a batch of its own, which reads nothing; that happens in a copy, and the new
generation counts this batch as one that it shares with its parent, because no table has it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidemill.checkpoint.current import Current, next_generation, read_history
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.rewind import copy_generation, live_side, switch_to_copy, table_restore
from tidemill.checkpoint.verbs.rewind_facts import never_ran, table_logs
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.table_restore import RestoreTable
from tidemill.ledger.undone import newest_batch
from tidemill.names import Layout, transaction_id
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

PINNED_PARTITIONS = "spark.sql.shuffle.partitions"

# Repartitions the state of a checkpoint directory, by adding a batch. Only Spark can.
RepartitionState = Callable[[str, int], None]


@dataclass(frozen=True)
class RepartitionFacts:
    """What a repartition is decided from.

    Args:
        live: Record of the live generation.
        generation: Unused name.
        partitions: Wanted number.
        declared: Number in the pipeline file.
        pinned: Number in the checkpoint; None if it says none.
        stateful: Whether there is state.
        planned: Newest batch in `offsets/`; -1 before the first.
        committed: Newest batch in `commits/`.
        tables: Newest version and newest batch of each table.
    """

    live: Current
    generation: str
    partitions: int
    declared: int
    pinned: int | None
    stateful: bool
    planned: int
    committed: int
    tables: Mapping[str, tuple[str, int, int | None]]


def gather_repartition(store: Store, pipeline: Pipeline, partitions: int) -> RepartitionFacts:
    """Read the checkpoint and the tables' logs; writes nothing.

    Raises:
        UsageError: TIDE-CKPT-076, if the pipeline has never run.
    """
    history = read_history(store, pipeline.layout, pipeline.name)
    if not history:
        raise never_ran(pipeline.name)
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, history[0].generation))
    planned, side = max(reader.offset_ids, default=-1), live_side(history)
    newest = reader.offsets(planned) if planned >= 0 else None
    pinned = None if newest is None else newest.conf.get(PINNED_PARTITIONS)
    logs = {name: log for name, log in table_logs(pipeline).items() if log.commits}
    return RepartitionFacts(
        live=history[0],
        generation=next_generation(store, pipeline.layout, pipeline.name),
        partitions=partitions,
        declared=pipeline.spec.run.shuffle_partitions,
        pinned=None if pinned is None else int(pinned),
        stateful=bool(reader.state.stores),
        planned=planned,
        committed=max(reader.commit_ids, default=-1),
        tables={
            name: (log.path, log.commits[0].version, newest_batch(log.commits, side))
            for name, log in logs.items()
        },
    )


def plan_repartition(facts: RepartitionFacts) -> dict[str, Any]:
    """The new generation.

    Raises:
        UsageError: TIDE-CKPT-081, if there is nothing to do or the pipeline file says otherwise.
        GateRefusedError: TIDE-CKPT-082, if a batch was begun and not finished.
    """
    _check_wanted(facts)
    _check_finished(facts)
    pipeline, generation = facts.live.pipeline, facts.live.generation
    return {
        "generation": facts.generation,
        "parent": generation,
        "number": facts.live.number + 1,
        "query_id": str(uuid.uuid4()),
        "copied_batch": facts.committed,
        # Spark's own batch, which the new generation shares with nobody, but which no table has either.
        "batch_id": facts.committed + 1,
        "partitions": facts.partitions,
        "partitions_before": facts.pinned,
        "tables": {
            name: {
                "path": path,
                "version": version,
                "to": version,
                "closes": [transaction_id(pipeline, generation, name)],
            }
            for name, (path, version, _) in facts.tables.items()
        },
    }


def repartition_steps(
    store: Store,
    layout: Layout,
    request: Request,
    plan: Mapping[str, Any],
    acts: tuple[RepartitionState, RestoreTable],
) -> tuple[Step, ...]:
    """1. A copy with its state rewritten. 2. The old side's transaction ids are closed. 3. It is live."""
    repartition_state, restore = acts
    parent = layout.checkpoint(request.pipeline, plan["parent"])
    target = layout.checkpoint(request.pipeline, plan["generation"])

    def rewrite() -> None:
        # One step, so that a repetition begins with a fresh copy: Spark does not go on with half of it.
        copy_generation(store, (parent, target), {**plan, "batch_id": plan["copied_batch"]})
        repartition_state(target, plan["partitions"])

    return (
        Step("repartition state", rewrite),
        *(
            Step(f"close {name}", partial(restore, table_restore(request, plan, name)))
            for name in plan["tables"]
        ),
        Step("switch generation", partial(switch_to_copy, store, layout, request, plan)),
    )


def _check_wanted(facts: RepartitionFacts) -> None:
    problem = ""
    if not facts.stateful:
        problem = "the pipeline keeps no state"
    elif facts.pinned == facts.partitions:
        problem = "its state has this number of partitions"
    elif facts.declared != facts.partitions:
        problem = f"its file says shuffle_partitions: {facts.declared}"
    if problem:
        raise UsageError(
            "TIDE-CKPT-081",
            f"The state cannot be repartitioned like this: {problem}. Nothing was changed.",
            facts={
                "pipeline": facts.live.pipeline,
                "partitions": facts.partitions,
                "in_file": facts.declared,
                "in_checkpoint": facts.pinned,
            },
            fix="write the wanted number into the pipeline file, under `run`, and name the same number here",
            runbook="repartition",
        )


def _check_finished(facts: RepartitionFacts) -> None:
    newest = {name: batch for name, (_, _, batch) in facts.tables.items() if batch is not None}
    begun = max([facts.planned, *newest.values()])
    if begun > facts.committed:
        raise GateRefusedError(
            "TIDE-CKPT-082",
            "A batch was begun and not finished. Nothing was changed. "
            "Spark would leave it out of the rewritten state.",
            facts={"pipeline": facts.live.pipeline, "begun": begun, "finished": facts.committed},
            fix="set shuffle_partitions back, start the pipeline, and stop it; it finishes the batch",
            runbook="repartition",
        )
