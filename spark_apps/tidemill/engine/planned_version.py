"""`python -m tidemill.engine.planned_version --pipeline NAME`: the state that this version would keep.

Spark plans the first batch of the version on an empty temporary checkpoint. There it describes its stateful
operators and the columns of their state, as at the first start of a query. No query is started, no source is
accessed, and no row is read or written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.backfill.row_origin import check_declared
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.version import KeptState, PlannedVersion, kept_in
from tidemill.engine.analyse import check_same_definition
from tidemill.engine.discovery import known_columns
from tidemill.engine.flow import Collectors, Flow, build_flow
from tidemill.engine.meanings import meanings_of
from tidemill.engine.models import with_models
from tidemill.engine.outputs import build_outputs
from tidemill.engine.plan_check.analysed import plan_of
from tidemill.engine.plan_check.check import refuse_or_warn
from tidemill.engine.verb_process import run_part
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.batch_commit import nothing_more
from tidemill.sources.read import read_streams
from tidemill.spec.capabilities import OutputMode
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Setting that holds the number of state partitions when Spark plans a batch.
_PARTITIONS = "spark.sql.shuffle.partitions"
_STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"

# Arguments of `IncrementalExecution`, from the twelfth, whose defaults fit a first batch.
_DEFAULTS = range(12, 16)


def planned_version(spark: SparkSession, pipeline: Pipeline) -> PlannedVersion:
    """Return the state and meanings that a driver of this version would keep.

    Raises:
        SpecError: TIDE-PLAN-…, if Spark cannot run it as a stream.
        DataError: TIDE-SINK-001, if a table cannot take its rows.
    """
    flow = _flow(spark, pipeline)
    warnings = refuse_or_warn(flow.findings)
    check_declared(pipeline, flow.origin)
    for output in build_outputs(pipeline, flow, nothing_more):
        output.check()
    return PlannedVersion(
        operators=operators_of(flow.frame, pipeline.spec.output_mode),
        meanings=meanings_of(flow.frame),
        spark=spark.version,
        warnings=tuple(warning.error.error_id for warning in warnings),
    )


def operators_of(frame: DataFrame, output_mode: OutputMode) -> tuple[KeptState, ...]:
    """Return the stateful operators of a stream as Spark would describe them in its checkpoint."""
    with tempfile.TemporaryDirectory(prefix="tidemill-planned-") as folder:
        checkpoint = f"{folder}/checkpoint"
        plan_first_batch(frame, output_mode, checkpoint)
        return kept_in(CheckpointReader(Store(folder), checkpoint))


def plan_first_batch(frame: DataFrame, output_mode: OutputMode, checkpoint: str) -> None:
    """Let Spark plan a stream's first batch on an empty checkpoint, where it describes the state."""
    session = frame.sparkSession._jsparkSession.cloneSession()
    session.conf().set(_STATE_PARTITIONS, session.conf().get(_PARTITIONS))
    jvm: Any = frame.sparkSession._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming
    execution, unique_id = streaming.runtime.IncrementalExecution, jvm.java.util.UUID.randomUUID()
    offsets = Path(checkpoint) / "offsets"
    # `transformWithState` checks that the batch is planned before it describes its state.
    offsets.mkdir(parents=True)
    (offsets / "0").touch()
    state = Path(checkpoint).as_uri() + "/state"
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    no_batch_before = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    pinned = streaming.checkpointing.OffsetSeqMetadata.apply(0, 0, session.conf())
    no_watermark = streaming.runtime.WatermarkPropagator.noop()
    batch = (0, no_batch_before, pinned, no_watermark, True)
    defaults = (getattr(execution, f"$lessinit$greater$default${number}")() for number in _DEFAULTS)
    planned = execution(session, plan_of(frame), mode, state, unique_id, unique_id, *batch, *defaults)
    planned.executedPlan()


def _flow(spark: SparkSession, pipeline: Pipeline) -> Flow:
    store = Store(pipeline.layout.root)
    quarantine = Quarantine.at(spark.sparkContext, pipeline.layout.quarantine(pipeline.name), "planning")
    columns = known_columns(spark.sparkContext, store, pipeline).columns
    return build_flow(pipeline, read_streams(spark, pipeline), Collectors(quarantine, None, columns))


def _act(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    pipeline = check_same_definition(arguments)
    found = planned_version(spark, with_models(pipeline, Store(pipeline.layout.root)))
    return found.model_dump(mode="json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tidemill.engine.planned_version", description=__doc__)
    parser.add_argument("--definition", required=True)
    # Part of the name of the part, because another release or image may find other facts in the same code.
    parser.add_argument("--release", required=True)
    parser.add_argument("--image", default="")
    sys.exit(run_part(parser, _act))
