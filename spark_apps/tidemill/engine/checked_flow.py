"""The flow of a driver's query: built, checked against Spark's rules, and what is proven of it kept."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from pyspark.sql import DataFrame

from tidemill.backfill.row_origin import check_declared, keep_origin
from tidemill.checkpoint.upgrade.version import PlannedVersion, keep_meanings
from tidemill.engine.flow import Collectors, Flow, build_flow
from tidemill.engine.meanings import meanings_of
from tidemill.engine.plan_check.check import refuse_or_warn
from tidemill.engine.run_context import RunContext

log = structlog.get_logger()


def checked_flow(
    run: RunContext,
    streams: Mapping[str, DataFrame],
    collectors: Collectors,
    versions: Mapping[str, int] | None = None,
) -> Flow:
    """Build the flow and see that Spark can run it; starts nothing.

    Args:
        run: Whose flow.
        streams: What each stream gives, by name.
        collectors: Take what does not go into rows.
        versions: Of the tables that are joined, in the place of the newest ones.

    Raises:
        SpecError: TIDE-PLAN-…
    """
    pipeline = run.pipeline
    flow = build_flow(pipeline, streams, collectors, versions)
    for warning in refuse_or_warn(flow.findings):
        log.warning("transform", **warning.error.as_document())
    check_declared(pipeline, flow.origin)
    keep_origin(run.store, pipeline, flow.origin)
    session = flow.frame.sparkSession
    meant = PlannedVersion(meanings=meanings_of(flow.frame), spark=session.version)
    keep_meanings(run.store, pipeline.layout.meanings(pipeline.name, run.code.digest), meant)
    return flow
