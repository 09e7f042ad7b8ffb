"""The flow of a driver's query: built, checked against Spark's rules, and what is proven of it kept."""

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

# The number of partitions is the gate's to compare. State that cannot be read cannot be compared, which the
# upgrade check reports before.
_NOT_HERE = ("TIDE-CTRL-084", "TIDE-CTRL-088")


def checked_flow(
    run: RunContext,
    streams: Mapping[str, DataFrame],
    collectors: Collectors,
    joined: Joined | None = None,
) -> Flow:
    """Build the flow and see that Spark can run it; starts nothing.

    Args:
        run: Whose flow.
        streams: What each stream gives, by name.
        collectors: Take what does not go into rows.
        joined: Contents of tables and folders that are joined, in the place of the newest ones.

    Raises:
        SpecError: TIDE-PLAN-…
        GateRefusedError: As `check_state`.
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
    """Refuse code whose stateful operators compute something else than the state holds, also if accepted.

    Spark describes the columns of the state only where the code was changed, because that takes it a second.

    Raises:
        GateRefusedError: As the upgrade check, such as TIDE-CTRL-085.
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
