"""A run of a pipeline in an existing session: the work of a driver without a separate process.

Shadow runs use it, and tests, both of this repository and of users' pipelines (`tidemill.testing`).
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
    """Return a run id that is unique in this process, because names of quarantine files contain it."""
    return f"in-session-{next(_RUN_NUMBERS)}"


def new_reporter(store: Store, path: str, pipeline: str, mode: str, run_id: str) -> Reporter:
    """Return the reporter that keeps the status of a new run."""
    now = datetime.now(UTC)
    return Reporter(
        store,
        path,
        Status(pipeline=pipeline, mode=mode, state="starting", run_id=run_id, started_at=now, updated_at=now),
    )


@dataclass(frozen=True)
class Meanwhile:
    """Hooks that act while a pipeline runs.

    Args:
        drain: Checked before each batch; another thread or a step may request it.
        step_done: Called after each step of a batch.
        admitted: Called between the gate and the first batch, when other processes may act.
        begins: Called with the reporter of the run, before its first event.
        begun: Batch that must finish with the tables with which it began.
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
    """Pass the gate, claim the epoch and run one query to its end; a stream ends when a drain is requested.

    Args:
        spark: The session.
        pipeline: The pipeline.
        store: Store of the control files.
        mode: Mode of the run.
        meanwhile: Hooks that act during the run.

    Raises:
        TidemillError: The error that ended the query, or forbade its start.
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
        # Process all pending events of the query first, as when a driver stops Spark.
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        spark.streams.removeListener(reporter)


def backfill_in_session(
    spark: SparkSession,
    pipeline: Pipeline,
    store: Store,
    plan: BackfillPlan,
    step_done: StepDone = nothing_more,
) -> Reporter:
    """Carry out a plan, which may be old or have crashed before.

    Raises:
        UsageError: TIDE-BACK-016, if the plan no longer holds.
    """
    pipeline = with_models(pipeline, store)
    run = RunContext(pipeline, "backfill", new_run_id(), store, Drain(), code_of(pipeline))
    path = pipeline.layout.backfill_status(plan.pipeline, plan.digest)
    reporter = new_reporter(store, path, pipeline.name, run.mode, run.run_id)
    run_backfill(spark, run, reporter, plan, step_done)
    return reporter
