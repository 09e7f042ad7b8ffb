"""Tasks around drivers that end by themselves: an incremental run, and a backfill with its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from tidemill.names import asset_uri
from tidemill_airflow.place import Place
from tidemill_airflow.waiting import evidence_or_raise, log_traces, wait_for

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.backfill.bounds import Bounds
    from tidemill.control.driver_command import Mode


class IncrementalRun(BaseOperator):
    """Run a pipeline up to what its source has now, and prove it by the driver's receipt.

    A retry, or a cleared task, finds a driver that is still at work instead of starting another one. A driver
    that was stopped before it had finished, as by a drained node, fails the task; a retry starts it again.

    Args:
        place: Project and environment.
        pipeline: The pipeline.
        tables: Its tables; each gets an asset event with version, batches and offsets.
    """

    def __init__(self, *, place: Place, pipeline: str, tables: list[str], **arguments: Any) -> None:
        super().__init__(outlets=[table_asset(table) for table in tables], **arguments)
        self.place = place
        self.pipeline = pipeline

    def execute(self, context: Context) -> None:
        """Start the driver and wait without a worker."""
        start_and_wait(self, context, self.pipeline, "incremental", ())

    def finish(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Succeed with what the run wrote, or fail with the driver's own words."""
        if event["state"] != "done":
            log_traces(self, self.place, self.pipeline)
        return conclude(self, context, self.pipeline, event)


class BackfillPlan(BaseOperator):
    """Print what a backfill would read and replace; writes nothing.

    Args:
        place: Project and environment.
    """

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, Any]:
        """Plan; returns the plan as plain data."""
        from tidemill.backfill.plan import plan_backfill
        from tidemill.spec.project import resolve_pipeline

        pipeline = resolve_pipeline(self.place.open().environment, context["params"]["pipeline"])
        plan = plan_backfill(pipeline, bounds_of(context))
        self.log.info("\n".join(plan.lines()))
        return plan.as_document()


class BackfillRun(BaseOperator):
    """Run the planned backfill beside the live stream; skipped on a dry run.

    Args:
        place: Project and environment.
    """

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> None:
        """Start the driver and wait without a worker."""
        if context["params"]["dry_run"]:
            raise AirflowSkipException(
                "dry run: the plan is in the log of the task before; nothing was written"
            )
        arguments = bounds_of(context).arguments()
        start_and_wait(self, context, context["params"]["pipeline"], "backfill", arguments)

    def finish(self, context: Context, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Succeed with the rows and versions written, or fail with the driver's own words."""
        if event["state"] != "done":
            log_traces(self, self.place, context["params"]["pipeline"], "backfill")
        return conclude(self, context, context["params"]["pipeline"], event)


def table_asset(table: str) -> Asset:
    """The asset of a Delta table."""
    return Asset(name=table, uri=asset_uri(table), group="tidemill")


def bounds_of(context: Context) -> Bounds:
    """The range of the trigger form; none for tables that are always computed from everything."""
    from tidemill.backfill.bounds import parse_bounds

    return parse_bounds(context["params"]["from"] or None, context["params"]["to"] or None)


def start_and_wait(
    operator: IncrementalRun | BackfillRun,
    context: Context,
    pipeline: str,
    mode: Mode,
    arguments: tuple[str, ...],
) -> None:
    """Start the driver of this DAG run, or find it again, and defer until it has ended."""
    from tidemill.control.bounded_run import finish_of, start_bounded
    from tidemill.control.driver_command import DriverRun

    # A cleared run is a new request; a driver of the one before that is still at work serves it as well.
    *earlier, run_id = [driver_run_id(context, clear) for clear in range(_times_cleared(context) + 1)]
    driver = start_bounded(operator.place.open(), DriverRun(pipeline, mode, run_id, arguments), earlier)
    operator.log.info("Driver %s runs as %s; its log: %s", driver.run_id, driver.process, driver.log)
    wait_for(operator, operator.place, finish_of(driver), "finish")


def conclude(
    operator: IncrementalRun | BackfillRun, context: Context, pipeline: str, event: dict[str, Any]
) -> list[dict[str, Any]]:
    """What the run committed, table by table, also as the extra of each table's asset event."""
    from tidemill.control.bounded_run import as_document, tables_written

    run_id = evidence_or_raise(event)["run_id"]
    results = tables_written(operator.place.open(), pipeline, run_id)
    documents = [as_document(result) for result in results]
    for document in documents:
        operator.log.info("%(table)s: %(rows)s rows, version %(version)s, batches %(batch_ids)s", document)
        asset = table_asset(document["table"])
        if asset in operator.outlets:
            context["outlet_events"][asset].extra = {"pipeline": pipeline, **document}
    if not documents:
        operator.log.info("Nothing new to write.")
    return documents


def driver_run_id(context: Context, times_cleared: int) -> str:
    """The same for every try of this DAG run, until it is cleared."""
    from tidemill.control.run_id import run_id_of

    again = f"-again-{times_cleared}" if times_cleared else ""
    return run_id_of(f"{context['dag_run'].dag_id}-{context['dag_run'].run_id}{again}")


def _times_cleared(context: Context) -> int:
    return int(getattr(context["dag_run"], "clear_number", None) or 0)
