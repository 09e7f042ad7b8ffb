"""Tasks for drivers that end by themselves: an incremental run, and a backfill with its plan."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from tidemill.airflow_names import asset_uri, name_beside
from tidemill_airflow.abandoned_runs import waiting_task_of
from tidemill_airflow.approval import PLAN, approval_of
from tidemill_airflow.asker import command, who_asks
from tidemill_airflow.links import LINKS
from tidemill_airflow.place import Place
from tidemill_airflow.request_name import request_name
from tidemill_airflow.trigger_form import refuse_unknown_fields
from tidemill_airflow.waiting import evidence_or_raise, show_rest, wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from tidemill.backfill.plan import BackfillPlan as Plan
    from tidemill.control.driver_command import DriverRun
    from tidemill.control.plane import ControlPlane
    from tidemill.spec.project import Pipeline


# The tables that a backfill writes are known only after it has run. All environments share this alias; each
# asset belongs to one environment.
BACKFILLED = AssetAlias("tidemill_backfilled")


class IncrementalRun(BaseOperator):
    """Run a pipeline until it has read all that its source has now, and prove it by the driver's receipt.

    A retry or a cleared task finds a driver that still runs, and does not start another one. If a driver was
    stopped before it finished, as by a drained node, the task fails, and a retry starts it again.

    Args:
        place: Project and environment.
        pipeline: The pipeline.
        tables: Its tables; each gets an asset event with version, batches and offsets.
    """

    operator_extra_links = LINKS
    runbook = "stream-does-not-start"

    def __init__(self, *, place: Place, pipeline: str, tables: list[str], **arguments: Any) -> None:
        super().__init__(outlets=[table_asset(table, place.beside) for table in tables], **arguments)
        self.place = place
        self.pipeline = pipeline

    def execute(self, context: Context) -> None:
        """Start the driver and wait without a worker."""
        start_and_wait(self, context)

    def run_of(self, context: Context, request: str) -> DriverRun:  # noqa: ARG002  # it has no plan
        """Return the driver run of one request."""
        from tidemill.control.ask.run_id import run_id_of
        from tidemill.control.driver_command import DriverRun

        return DriverRun(self.pipeline, "incremental", run_id_of(request))

    def finish(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return what the run wrote, or fail with the driver's error.

        The task is skipped if the run wrote no table. A successful task would emit an event for each asset,
        and the DAGs scheduled on them would run for nothing. A pipeline without tables has no assets and is
        not skipped.
        """
        settle(self, event)
        written = conclude(self, context, self.pipeline, event)
        if self.outlets and not written:
            raise AirflowSkipException("no table was written: there was nothing new for one")
        for document in written:
            asset = table_asset(document["table"], self.place.beside)
            context["outlet_events"][asset].extra = {"pipeline": self.pipeline, **document}
        return written


class BackfillPlan(BaseOperator):
    """Print what a backfill would read and replace; changes no data.

    A range that cannot be reprocessed is not retried, because the result would be the same.

    Args:
        place: Project and environment.
    """

    operator_extra_links = LINKS
    runbook = "backfill"

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan and return the plan as plain data."""
        from tidemill.control.backfill_outlook import outlook_of
        from tidemill.spec.project import resolve_pipeline

        refuse_unknown_fields(self, context)
        plane, params = self.place.open(), context["params"]
        pipeline = resolve_pipeline(plane.environment, params["pipeline"])
        outlook = outlook_of(plane, pipeline, _plan_of_form(plane, pipeline, params))
        text = "\n".join(outlook.lines())
        self.log.info(text)
        return {"text": text, "has_work": True, **outlook.as_document()}


class BackfillRun(BaseOperator):
    """Apply the plan of the task `plan` while the live stream runs; skipped on a dry run.

    In a protected environment, a second user has approved the plan. At the end each written table gets one
    asset event, regardless of the number of chunks.

    Args:
        place: Project and environment.
    """

    operator_extra_links = LINKS
    runbook = "backfill"

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(outlets=[BACKFILLED], **arguments)
        self.place = place

    def execute(self, context: Context) -> None:
        """Start the driver and wait without a worker."""
        if context["params"]["dry_run"]:
            raise AirflowSkipException(
                "dry run: the plan is in the log of the task `plan`; nothing was written"
            )
        self._check_allowed(context)
        start_and_wait(self, context)

    def run_of(self, context: Context, request: str) -> DriverRun:
        """Return the driver run of one request."""
        from tidemill.control.ask.bounded_run import backfill_run

        return backfill_run(context["params"]["pipeline"], _planned(context), request)

    def finish(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the rows and versions written, or fail with the driver's error."""
        settle(self, event)
        pipeline = context["params"]["pipeline"]
        written = conclude(self, context, pipeline, event)
        for document in written:
            extra = {"pipeline": pipeline, "mode": "backfill", **document}
            asset = table_asset(document["table"], self.place.beside)
            context["outlet_events"][BACKFILLED].add(asset, extra=extra)
        self._tell_staged(pipeline, event["evidence"]["run_id"])
        return written

    def _check_allowed(self, context: Context) -> None:
        from tidemill.control.backfill_consent import allow_backfill
        from tidemill.control.procedures.run import Asking

        run, approval = context["dag_run"], approval_of(context)
        asking = Asking(
            "apply",
            (),
            who_asks(context),
            partial(command, self.place),
            approved_by=approval.by,
            reason=f"DAG run {run.run_id}",
            group="backfill",
        )
        at = approval.at or run.run_after
        allow_backfill(self.place.open(), asking, context["params"]["pipeline"], _planned(context), at)

    def _tell_staged(self, name: str, run_id: str) -> None:
        from tidemill.backfill.plan import load_plan
        from tidemill.backfill.progress import read_progress
        from tidemill.backfill.staging import next_steps, waits
        from tidemill.control.ask.bounded_run import plan_of

        plane = self.place.open()
        # Load the plan of the run. The result of the task `plan` may differ, because clearing both tasks
        # makes a new plan.
        plan = load_plan(plane.store, plane.layout, name, plan_of(run_id) or "")
        progress = read_progress(plane.store, plane.layout, name, plan.digest)
        if progress is not None and waits(plan, progress):
            self.log.info("\n".join(next_steps(plan)))


def _plan_of_form(plane: ControlPlane, pipeline: Pipeline, params: Mapping[str, Any]) -> Plan:
    """Return a new plan, or the plan that the form names if it matches the form.

    Raises:
        UsageError: TIDE-BACK-016 if it does not match; other ids for ranges that cannot be reprocessed.
    """
    from tidemill.backfill.bounds import parse_bounds
    from tidemill.backfill.chunks import parse_chunk
    from tidemill.backfill.manner import Manner
    from tidemill.backfill.plan import load_plan, plan_is_void
    from tidemill.backfill.planning import plan_backfill
    from tidemill.control.spark_part import analysing

    # None for tables that are always computed from all data.
    bounds = parse_bounds(params["from"] or None, params["to"] or None)
    manner = Manner(parse_chunk(params.get("chunk") or None), params.get("publish") or "now")
    digest = params.get("plan")
    if not digest:
        return plan_backfill(plane.store, pipeline, bounds, analysing(plane, pipeline), manner)
    plan = load_plan(plane.store, plane.layout, pipeline.name, digest)
    if (plan.bounds, plan.chunk, plan.publish) != (bounds, manner.chunk, manner.publish):
        raise plan_is_void(pipeline.name, digest, "it is of another range, chunk or way to publish")
    return plan


def _planned(context: Context) -> str:
    """Return the digest of the plan that this run's task `plan` has shown."""
    return str(context["ti"].xcom_pull(task_ids=PLAN)["digest"])


def table_asset(table: str, beside: str = "") -> Asset:
    """Return the asset of a Delta table; its name has the suffix of a second environment if there is one."""
    return Asset(name=name_beside(table, beside), uri=asset_uri(table, beside), group="tidemill")


def start_and_wait(operator: IncrementalRun | BackfillRun, context: Context) -> None:
    """Start the driver of this DAG run, or find it again, and defer until it has ended.

    A cleared run is a new request. If a driver of the previous request still runs, it serves the new request
    as well.
    """
    from tidemill.control.ask.bounded_run import finish_of, start_bounded
    from tidemill.control.ask.untold_runs import note_untold
    from tidemill.control.ask.waiting_task import note_waiting

    run = operator.run_of(context, request_name(context))
    task = waiting_task_of(context, run)
    plane = operator.place.open()
    plane.own()
    note_waiting(plane, task)
    driver = start_bounded(plane, run, note_untold(plane, task).run_ids)
    if driver.run_id != run.run_id:
        note_waiting(plane, waiting_task_of(context, driver))
        operator.log.info("Driver %s was started before this task was cleared, and goes on", driver.run_id)
    operator.log.info("Driver %s runs as %s; its log: %s", driver.run_id, driver.process, driver.log)
    wait_for(operator, operator.place, finish_of(driver), "finish")


def settle(operator: IncrementalRun | BackfillRun, event: dict[str, Any]) -> None:
    """Log why the wait ended, and end a driver that cannot start, so that a retry can start another one."""
    from tidemill.control.ask.bounded_run import end_stuck_driver
    from tidemill.control.ask.goal import Goal
    from tidemill.control.ask.waiting_task import forget_waiting

    if event["state"] != "done":
        show_rest(operator, operator.place, event)
    plane, goal = operator.place.open(), Goal.model_validate(event["goal"])
    if event["evidence"].get("stuck"):
        end_stuck_driver(plane, goal)
    if event["evidence"].get("run_id"):
        forget_waiting(plane, goal.pipeline, event["evidence"]["run_id"])


def conclude(
    operator: IncrementalRun | BackfillRun, context: Context, pipeline: str, event: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the commits of each table, including those of runs before a clear that were not reported yet."""
    from tidemill.control.ask.bounded_run import as_document, tables_written
    from tidemill.control.ask.goal import Goal
    from tidemill.control.ask.untold_runs import forget_untold, untold_runs

    run_id = evidence_or_raise(event)["run_id"]
    task = waiting_task_of(context, operator.run_of(context, request_name(context)))
    plane = operator.place.open()
    begun_at = Goal.model_validate(event["goal"]).started_at or task.at
    untold = untold_runs(plane, task, begun_at)
    # A driver that ended before this try found it is older than the record of this try.
    since = min(untold.since, begun_at)
    results = tables_written(plane, pipeline, {run_id, *untold.run_ids}, since)
    documents = [as_document(result) for result in results]
    for document in documents:
        operator.log.info("%(table)s: %(rows)s rows, version %(version)s, batches %(batch_ids)s", document)
    forget_untold(plane, task)
    return documents
