"""The driver process: `python -m tidemill.engine.driver --pipeline NAME --mode MODE …`.

The exit code is 0 if the driver has finished or drained, otherwise the `exit_code` of the error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog
from pydantic import ValidationError
from pyspark.sql import SparkSession

from tidemill.backfill.plan import hold_of, load_plan
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.gate import check, check_holds, gather_facts
from tidemill.checkpoint.last_ending import read_last_ending
from tidemill.checkpoint.query_report import QueryReport, write_query_report
from tidemill.checkpoint.receipts import write_receipt
from tidemill.checkpoint.root_owner import CONTROL_PLANE_VARIABLE, check_started_by_owner
from tidemill.checkpoint.status import Status, read_status
from tidemill.engine.admission import admit, generation_to_run
from tidemill.engine.arguments import parse_arguments
from tidemill.engine.availability import Backoff, check_source, failure_of
from tidemill.engine.backfill import run_backfill
from tidemill.engine.batch import DrainedError
from tidemill.engine.drain import Drain
from tidemill.engine.driver_http import DriverView, serve
from tidemill.engine.driver_pod import (
    LOOPBACK,
    check_first_pod,
    check_not_fenced,
    how_reached,
    mark_fenced,
    this_pod,
)
from tidemill.engine.heartbeat import Heartbeat
from tidemill.engine.jvm_process import check_jvm, jvm_has_ended
from tidemill.engine.lineage_sender import open_lineage
from tidemill.engine.log_lines import log_json_lines, run_in_log
from tidemill.engine.models import with_models
from tidemill.engine.query_reporter import Addresses, QueryReporter
from tidemill.engine.receipt import make_receipt
from tidemill.engine.reporter import Reporter
from tidemill.engine.retention_watch import retention_watched
from tidemill.engine.run_context import RunContext
from tidemill.engine.session import start_session
from tidemill.engine.streaming import Ending, run_query
from tidemill.errors import AbsentError, FencedError, TidemillError, UnavailableError
from tidemill.ledger.code import code_of
from tidemill.spec.combinations import check_here
from tidemill.spec.pod import HTTP_PORT
from tidemill.spec.project import Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project, find_project
from tidemill.storage.access import open_storage
from tidemill.storage.store import Store

# All interfaces of a pod. Probes and scrapes reach its address, port forwards reach its loopback interface.
EVERYWHERE = "0.0.0.0"  # noqa: S104  # network policies limit who can reach the pod

# Any free port, which the report of the query names.
ANY_PORT = 0

log = structlog.get_logger()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one pipeline in this process until it ends; return the exit code."""
    arguments = parse_arguments(argv)
    log_json_lines(run=run_in_log(arguments.pipeline, arguments.run_id))
    heartbeat = Heartbeat.of_this_process()
    try:
        project: Project = find_project(arguments.project, own_sources=arguments.sources)
        pipeline = resolve_pipeline(load_environment(project, arguments.env), arguments.pipeline)
        if arguments.mode != "backfill":
            check_here(pipeline, arguments.mode)
        pod = this_pod()
        check_first_pod(pod, arguments.mode)
        check_not_fenced(pod)
        open_storage(pipeline.environment)
    except TidemillError as error:
        _log_error(error, None)
        heartbeat.end(error.exit_code, error.error_id)
        return error.exit_code
    drain = Drain()
    drain.on_signals()
    return _run(pipeline, arguments, drain, heartbeat)


def _run(pipeline: Pipeline, arguments: argparse.Namespace, drain: Drain, heartbeat: Heartbeat) -> int:
    """Run the pipeline and write a receipt, unless the process is killed.

    1. Open the port before any access to the storage. A silent storage takes minutes to fail, and Kubernetes
       kills a driver that answers no probe in that time.
    2. Check the owner of the root before any write. Then read the last driver's documents, before this
       driver's first status overwrites them.
    3. Check holds, models and gate: refuse the start if rows could be lost or duplicated.
    4. Claim the epoch, only for a driver that may start.
    5. Run. Before each query, check the gate again, now with facts from the broker.
    6. Write the receipt, then the final status, so that a reader of `stopped` finds the receipt.
    """
    store = Store(pipeline.layout.root)
    reporter = _reporter(store, pipeline, arguments, heartbeat)
    # 1.
    _serve(pipeline, reporter, arguments)
    failure: TidemillError | None = None
    ending: Ending = "finished"
    try:
        # 2.
        check_started_by_owner(store, pipeline.layout, os.environ.get(CONTROL_PLANE_VARIABLE))
        reporter.lineage = open_lineage(pipeline)
        if reporter.lineage is not None:
            reporter.lineage.begins(reporter.status)
        if arguments.mode != "backfill":
            _log_last_ending(store, pipeline)
            reporter.goes_on_from(_last_words(store, pipeline))
        reporter.state("starting")
        run = RunContext(pipeline, arguments.mode, arguments.run_id, store, drain, code_of(pipeline))
        # 3.
        if run.mode == "backfill":
            run = replace(run, own_hold=hold_of(arguments.plan))
        check_holds(store, pipeline.layout, pipeline.name, run.own_hold)
        pipeline = with_models(pipeline, store)
        run = replace(run, pipeline=pipeline, code=code_of(pipeline))
        if run.mode != "backfill":
            generation = generation_to_run(store, pipeline)
            check(gather_facts(store, pipeline, generation))
            # 4.
            epoch = claim_epoch(store, pipeline.layout, pipeline.name, arguments.run_id)
            run = replace(run, generation=generation, epoch=epoch)
            reporter.state("starting", generation=generation, epoch=epoch)
        # 5.
        with retention_watched(pipeline, reporter):
            ending = _run_mode(run, reporter, arguments)
    except Exception as error:  # noqa: BLE001  # the entry point: log once, exit with the right code
        failure = failure_of(pipeline, error)
        _log_error(failure, error)
    # 6.
    exit_code = _finish(store, pipeline, reporter, ending, failure)
    heartbeat.end(exit_code, "" if failure is None else failure.error_id)
    return exit_code


def _log_last_ending(store: Store, pipeline: Pipeline) -> None:
    """Log how the last driver ended.

    This is only for information, because the gate decides by checkpoint and tables.
    """
    try:
        last = read_last_ending(store, pipeline.layout, pipeline.name)
    except Exception as error:  # noqa: BLE001  # a receipt that cannot be read must not forbid a start
        log.warning("last_ending_unknown", pipeline=pipeline.name, reason=f"{type(error).__name__}: {error}")
        return
    if last is not None:
        log.info("last_ending", pipeline=pipeline.name, **last.document())


def _last_words(store: Store, pipeline: Pipeline) -> Status | None:
    """Return the status of the last driver; None if it is damaged, which must not forbid a start."""
    try:
        return read_status(store, pipeline.layout, pipeline.name)
    except (TidemillError, ValidationError):
        return None


def _reporter(
    store: Store, pipeline: Pipeline, arguments: argparse.Namespace, heartbeat: Heartbeat
) -> Reporter:
    now = datetime.now(UTC)
    status = Status(
        pipeline=pipeline.name,
        mode=arguments.mode,
        state="starting",
        run_id=arguments.run_id,
        started_at=now,
        updated_at=now,
        **_declared(pipeline, arguments),
    )
    path = pipeline.layout.status(pipeline.name)
    if arguments.mode == "backfill":
        path = pipeline.layout.backfill_status(pipeline.name, arguments.plan)

    def keep(report: QueryReport) -> None:
        write_query_report(store, pipeline.layout, report)

    return Reporter(store, path, status, heartbeat.beat, QueryReporter(keep))


def _declared(pipeline: Pipeline, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the declared times to judge a stream's progress by; empty for a bounded run."""
    if arguments.mode != "stream":
        return {}
    run = pipeline.spec.run
    return {
        "trigger_seconds": run.trigger.total_seconds(),
        "trigger": run.trigger_of("stream") if run.is_without_batches("stream") else "",
        "progress_within_seconds": pipeline.progress_within.total_seconds(),
    }


def _serve(pipeline: Pipeline, reporter: Reporter, arguments: argparse.Namespace) -> None:
    """Serve the HTTP port, for probes and port forwards.

    Outside a pod, serve only if a port is requested or a table in memory is read through it, and only on the
    loopback interface.
    """
    pod = this_pod()
    port = arguments.http_port or (HTTP_PORT if pod is not None else None)
    if port is None and any(sink.memory is not None for sink in pipeline.spec.sinks):
        port = ANY_PORT
    if port is not None:
        trigger = pipeline.spec.run.trigger if arguments.mode == "stream" else None
        view = DriverView(
            lambda: reporter.status,
            reporter.silence,
            trigger,
            lambda: reporter.query.report,
            reporter.memory_table,
        )
        server = serve((LOOPBACK if pod is None else EVERYWHERE, port), view)
        if server is not None:
            reporter.query.addresses = Addresses(http=how_reached(server.url, pod))


def _run_mode(run: RunContext, reporter: Reporter, arguments: argparse.Namespace) -> Ending:
    """Start Spark and run; retry after a source or sink was unavailable."""
    backoff = Backoff(run.drain, reporter)
    spark: SparkSession | None = None
    try:
        while not run.drain.requested:
            try:
                check_source(run.pipeline)
                run = admit(run)
                if spark is None:
                    spark = start_session(run.pipeline, this_pod(), run.mode)
                    spark.streams.addListener(reporter)
                    ui = how_reached(spark.sparkContext.uiWebUrl, this_pod())
                    reporter.query.addresses = replace(reporter.query.addresses, spark_ui=ui)
                if run.mode == "backfill":
                    plan = load_plan(run.store, run.pipeline.layout, run.pipeline.name, arguments.plan)
                    run_backfill(spark, run, reporter, plan)
                    return "finished"
                return run_query(spark, run, reporter)
            except DrainedError:
                break
            except Exception as error:
                if spark is not None:
                    check_jvm(spark, error)
                unavailable = failure_of(run.pipeline, error)
                # A source that cannot be read again starts from the beginning, in a new driver and
                # generation.
                may_repeat = run.pipeline.spec.is_replayable
                # An operator who waits corrects the name before another pipeline creates the missing source.
                is_wrong_name = arguments.attended and spark is None and isinstance(unavailable, AbsentError)
                if not isinstance(unavailable, UnavailableError) or not may_repeat or is_wrong_name:
                    raise
                log.warning(
                    "unavailable",
                    pipeline=run.pipeline.name,
                    error=unavailable.error_id,
                    reason=str(unavailable),
                )
                reporter.query.ends()
                if reporter.progressed():
                    backoff.succeeded()
                backoff.wait(unavailable)
        return "drained"
    finally:
        if spark is not None and not jvm_has_ended(spark):
            # A driver does not exit while its JVM is alive.
            spark.stop()


def _finish(
    store: Store, pipeline: Pipeline, reporter: Reporter, ending: Ending, failure: TidemillError | None
) -> int:
    if isinstance(failure, FencedError):
        # Must be first, because the steps below may take minutes on a slow storage, or may be killed.
        mark_fenced(this_pod())
    receipt = make_receipt(store, pipeline.layout, reporter.status, ending, failure)
    try:
        write_receipt(store, pipeline.layout, receipt)
    except Exception as error:  # noqa: BLE001  # a full disk must not hide how the driver ended
        log.warning("receipt_not_written", reason=f"{type(error).__name__}: {error}")
    # After a fence the status belongs to the newer driver.
    if not isinstance(failure, FencedError):
        reporter.state("stopped" if failure is None else "failed", failure)
        # Repeated, because Spark may have reported the last batch after its query ended.
        reporter.query.ends()
    log.info("stopped", pipeline=pipeline.name, result=receipt.result, exit_code=receipt.exit_code)
    # After receipt and status, because it may take seconds if the service does not answer.
    if reporter.lineage is not None:
        reporter.lineage.ends(receipt)
    return receipt.exit_code


def _log_error(error: TidemillError, cause: BaseException | None) -> None:
    # The facts of a Tidemill error are enough; other errors need their stack trace.
    trace = None if cause is None or isinstance(cause, TidemillError) else cause
    log.error("failed", **error.as_document(), exc_info=trace)


if __name__ == "__main__":
    sys.exit(main())
