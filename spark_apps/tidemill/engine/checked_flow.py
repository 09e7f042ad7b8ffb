"""The flow of a driver's query, built and checked against Spark's rules, with its proven facts stored."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from pyspark.sql import DataFrame

from tidemill.backfill.row_origin import check_declared, keep_origin
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.compare import UpgradeFacts, compare, compare_meanings
from tidemill.checkpoint.upgrade.version import PlannedVersion, keep_meanings, kept_in, read_meanings
from tidemill.engine.flow import Collectors, Flow, build_flow
from tidemill.engine.meanings import meanings_of
from tidemill.engine.plan_check.check import refuse_or_warn
from tidemill.engine.planned_version import operators_of
from tidemill.engine.run_context import RunContext
from tidemill.ledger.entry import Joined

log = structlog.get_logger()

# The gate compares the number of partitions. Unreadable state cannot be compared; the upgrade check reports
# it earlier.
_NOT_HERE = ("TIDE-CTRL-084", "TIDE-CTRL-088")


def checked_flow(
    run: RunContext,
    streams: Mapping[str, DataFrame],
    collectors: Collectors,
    joined: Joined | None = None,
) -> Flow:
    """Build the flow and check that Spark can run it; start nothing.

    Args:
        run: The run.
        streams: DataFrame of each stream, by name.
        collectors: Collect records and columns that do not become rows.
        joined: Contents of joined tables and folders, instead of the newest ones.

    Raises:
        SpecError: TIDE-PLAN-…
        GateRefusedError: See `check_state`.
    """
    pipeline = run.pipeline
    flow = build_flow(pipeline, streams, collectors, joined)
    for warning in refuse_or_warn(flow.findings):
        log.warning("transform", **warning.error.as_document())
    check_declared(pipeline, flow.origin)
    keep_origin(run.store, pipeline, flow.origin)
    version = PlannedVersion(meanings=meanings_of(flow.frame), spark=flow.frame.sparkSession.version)
    check_state(run, flow.frame, version)
    keep_meanings(run.store, pipeline.layout.meanings(pipeline.name, run.code.digest), version)
    return flow


def check_state(run: RunContext, frame: DataFrame, version: PlannedVersion) -> None:
    """Refuse code whose stateful operators do not fit the state, even if an operator has accepted the code.

    The columns of the state are compared only if the code has changed, because Spark needs a second to
    describe them.

    Raises:
        GateRefusedError: The refusals of the upgrade check, such as TIDE-CTRL-085.
    """
    if not run.written_by:
        return
    pipeline = run.pipeline
    noted = pipeline.layout.meanings(pipeline.name, run.written_by)
    meant = read_meanings(run.store, noted, version.spark)
    if run.written_by == run.code.digest:
        found = list(compare_meanings(pipeline.name, meant, version.meanings)) if meant else []
    else:
        kept = kept_in(CheckpointReader(run.store, run.checkpoint))
        planned = version.model_copy(update={"operators": operators_of(frame, pipeline.spec.output_mode)})
        found = compare(UpgradeFacts(pipeline.name, kept, planned, meant))
    refusal = next((f for f in found if f.severity == "error" and f.finding_id not in _NOT_HERE), None)
    if refusal is not None:
        raise refusal.as_error()
