"""# Reprocess a range of the past

**Does:** Runs by hand. `plan` prints the records to read and the rows to replace. With `dry_run` on (the
default), nothing else happens. With `dry_run` off, `apply` starts a separate driver while the live stream
runs, and replaces exactly the planned rows. `apply` follows a new plan, unless the field `plan` names the
digest of a plan that you have read. In a protected environment, a second user must approve the plan
(`approve`, under Required Actions). The audit entry names the approver. Without an answer within an hour,
nothing changes.

Running the same range twice changes nothing. With `chunk`, a long range is committed in chunks, and a retry
continues with the remaining chunks. `tidemill backfill status` shows the progress. The log of `apply` shows
the driver's log while the driver runs. To stop the backfill for good, mark `apply` as failed. With `publish`
set to `later`, `apply` stages the rows and changes no table. Its log shows the command that publishes them.

**Healthy:** Read the plan of a dry run first. `apply` returns the rows and version of each table, and emits
one asset event for each table.

**Not healthy:** `plan` refuses a range that cannot be reprocessed exactly, and names a range that can.
`apply` fails with the driver's error and the path of its log. It is safe to run it again.
Page: backfill.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tidemill.airflow_names import BACKFILL_DAG_ID
from tidemill_airflow.approval import APPROVE, PLAN, ApprovePlan
from tidemill_airflow.bounded_operators import BackfillPlan, BackfillRun
from tidemill_airflow.declared import choices, is_backfillable, is_protected
from tidemill_airflow.driver_pool import driver_pool
from tidemill_airflow.moment import MOMENT
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import REPEATED

PLACE = place_of(__file__)
PIPELINES = choices(PLACE, is_backfillable)
# A number of records or a duration.
CHUNK = r"^[0-9]{1,10}$|^[0-9]{1,10}(\.[0-9]{1,3})? ?[a-z]{1,12}$"

if PIPELINES:
    with DAG(
        PLACE.dag_id(BACKFILL_DAG_ID),
        schedule=None,
        # Runs by hand only, so there is no reason to start paused.
        is_paused_upon_creation=False,
        # A paused DAG accepts a request and never runs it.
        max_consecutive_failed_dag_runs=0,
        doc_md=__doc__,
        tags=["tidemill", "backfill"],
        default_args={**REPEATED, "owner": "tidemill"},
        params={
            "pipeline": Param(type="string", enum=PIPELINES, description="What to process again."),
            "from": Param(
                None,
                **MOMENT,
                description="First moment of event time; empty only for a table made from everything.",
            ),
            "to": Param(None, **MOMENT, description="End of event time, exclusive."),
            "chunk": Param(
                None,
                type=["null", "string"],
                pattern=CHUNK,
                description="Commit in chunks of so much event time, e.g. 1 day, or of so many records.",
            ),
            "publish": Param(
                "now",
                type="string",
                enum=["now", "later"],
                description="later: stage the rows; `tidemill backfill publish` brings them into the tables.",
            ),
            "plan": Param(
                None,
                type=["null", "string"],
                pattern=r"^[0-9a-f]{12}$",
                description="Digest of a plan of just this form that was looked at; empty to plan anew.",
            ),
            "dry_run": Param(True, type="boolean", description="Only print the plan."),
        },
    ):
        # `plan` uses no pool, because an operator waits for the plan and must not queue behind runs that take
        # hours.
        plan = BackfillPlan(task_id=PLAN, place=PLACE)
        apply = BackfillRun(task_id="apply", place=PLACE, pool=driver_pool())
        if is_protected(PLACE):
            # An approval that timed out is not requested again.
            plan >> ApprovePlan(task_id=APPROVE, what="backfill", retries=0) >> apply
        else:
            plan >> apply
