"""# Process a range of the past again

**Does:** triggered by hand. `plan` prints what would be read and replaced. That is all, unless `dry_run` is
switched off: then `apply` starts a driver of its own beside the live stream, and replaces exactly the planned
rows. That is a new plan, unless the field `plan` names the digest of one that was read. In a protected
environment someone else approves it in between (`approve`, under Required Actions), and is named in the audit
entry; without an answer within an hour nothing is changed.

Running the same range twice changes nothing. With `chunk` a long range is committed piece by piece, and a
retry goes on with the pieces that are left; `tidemill backfill status` tells how far it is. Meanwhile the
driver's log is in the log of `apply`. To stop it for good, mark `apply` as failed. With `publish` set to
`later`, `apply` stages the rows and changes no table; its log says how to publish them.

**Healthy:** read the plan of a dry run first. `apply` returns rows and version of each table,
and each table's asset gets one event with them.

**Not healthy:** `plan` refuses a range that cannot be processed again exactly, and says which one can.
`apply` fails with the driver's own error and the path of its log; it is safe to run it again.
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
# A number of records, or a length of time.
CHUNK = r"^[0-9]{1,10}$|^[0-9]{1,10}(\.[0-9]{1,3})? ?[a-z]{1,12}$"

if PIPELINES:
    with DAG(
        PLACE.dag_id(BACKFILL_DAG_ID),
        schedule=None,
        # Runs by hand only, so there is nothing to wait for.
        is_paused_upon_creation=False,
        # A paused DAG takes a request and never carries it out.
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
        # A person reads the plan: it does not queue behind runs that take hours.
        plan = BackfillPlan(task_id=PLAN, place=PLACE)
        apply = BackfillRun(task_id="apply", place=PLACE, pool=driver_pool())
        if is_protected(PLACE):
            # A question that nobody answered in time is not asked again.
            plan >> ApprovePlan(task_id=APPROVE, what="backfill", retries=0) >> apply
        else:
            plan >> apply
