"""A run of a pipeline in a session that exists: what a driver does, without a process of its own.

For shadow runs, and for tests, of this repository and of a user's pipelines (`tidemill.testing`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from pyspark.sql import SparkSession

from tidemill.backfill.plan import BackfillPlan
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.gate import check, check_holds, gather_facts
from tidemill.checkpoint.status import Status
from tidemill.engine.admission import admit, generation_to_run
from tidemill.engine.backfill import run_backfill
from tidemill.engine.drain import Drain
from tidemill.engine.half_written import Begun
from tidemill.engine.models import with_models
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.streaming import Ending, run_query
from tidemill.ledger.code import code_of
from tidemill.sinks.batch_commit import StepDone, nothing_more
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

_RUN_NUMBERS = itertools.count(1)


def new_run_id() -> str:
    """A run's name; no two runs of a process share one, as names of quarantine files depend on it."""
    return f"in-session-{next(_RUN_NUMBERS)}"


def new_reporter(store: Store, path: str, pipeline: str, mode: str, run_id: str) -> Reporter:
    """What keeps the status of a run that begins now."""
    now = datetime.now(UTC)
    return Reporter(
        store,
        path,
        Status(pipeline=pipeline, mode=mode, state="starting", run_id=run_id, started_at=now, updated_at=now),
    )


@dataclass(frozen=True)
class Meanwhile:
    """What happens while a pipeline runs.

    Args:
        drain: Asked before each batch; requested by another thread, or by a step.
        step_done: Called after each step of a batch.
        admitted: Called before the query starts: what others do between the gate and the first batch.
        begins: Given what keeps the run's status, before its first event.
        begun: The batch to finish with the tables that it was begun with.
    """

    drain: Drain = field(default_factory=Drain)
    step_done: StepDone = nothing_more
    admitted: Callable[[], object] = lambda: None
    begins: Callable[[Reporter], object] = lambda _: None
    begun: Begun | None = None


def run_in_session(
    spark: SparkSession,
    pipeline: Pipeline,
    store: Store,
    mode: Literal["stream", "incremental"] = "incremental",
    meanwhile: Meanwhile | None = None,
) -> tuple[Ending, Reporter]:
    """Gate, epoch, then one query to its end; as a stream it ends when a drain is requested.

    Args:
        spark: The session.
        pipeline: What runs.
        store: Control files.
        mode: How.
        meanwhile: What happens beside it.

    Raises:
        TidemillError: What ended the query, or forbade its start.
    """
    beside = meanwhile or Meanwhile()
    run_id = new_run_id()
    pipeline = with_models(pipeline, store)
    generation = generation_to_run(store, pipeline)
    check_holds(store, pipeline.layout, pipeline.name)
    check(gather_facts(store, pipeline, generation))
    epoch = claim_epoch(store, pipeline.layout, pipeline.name, run_id)
    code = code_of(pipeline)
    run = admit(RunContext(pipeline, mode, run_id, store, beside.drain, code, generation, epoch))
    beside.admitted()
    reporter = new_reporter(store, pipeline.layout.status(pipeline.name), pipeline.name, mode, run_id)
    beside.begins(reporter)
    spark.streams.addListener(reporter)
    try:
        return run_query(spark, run, reporter, beside.step_done, beside.begun), reporter
    finally:
        # As when a driver stops Spark: what the query still had to say is heard first.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        spark.streams.removeListener(reporter)


def backfill_in_session(
    spark: SparkSession,
    pipeline: Pipeline,
    store: Store,
    plan: BackfillPlan,
    step_done: StepDone = nothing_more,
) -> Reporter:
    """Carry out a plan, perhaps an older one, or one that crashed.

    Raises:
        UsageError: TIDE-BACK-016, if it does not hold any more.
    """
    pipeline = with_models(pipeline, store)
    run = RunContext(pipeline, "backfill", new_run_id(), store, Drain(), code_of(pipeline))
    path = pipeline.layout.backfill_status(plan.pipeline, plan.digest)
    reporter = new_reporter(store, path, pipeline.name, run.mode, run.run_id)
    run_backfill(spark, run, reporter, plan, step_done)
    return reporter
