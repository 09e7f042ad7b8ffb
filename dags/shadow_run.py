"""# Shadow run: what a new version makes of the same records

**Does:** has the declared version of one pipeline make its newest batches again, on a copy that is gone in
the end, and compares with what the tables have of them. To be run before a changed transform takes over. The
stream goes on meanwhile, and is only read. The same as `tidemill upgrade shadow`.

**Healthy:** green if both versions make the same rows; the log has a line for each table.

**Not healthy:** red if rows or columns differ, with some of the rows in the log: read whether they are what
the change is about. Red also if the version fails at a batch, or cannot go on from the state that there is.
Pages: shadow-run, upgrade.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from tidemill.airflow_names import SHADOW_RUN_DAG_ID
from tidemill_airflow.declared import names
from tidemill_airflow.driver_pool import driver_pool
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import LONG_WORK_TIMEOUT, REPEATED
from tidemill_airflow.shadow_operator import RunShadow

PLACE = place_of(__file__)
PIPELINES = names(PLACE)

if PIPELINES:
    with DAG(
        PLACE.dag_id(SHADOW_RUN_DAG_ID),
        schedule=None,
        # Runs by hand only, so there is nothing to wait for.
        is_paused_upon_creation=False,
        # A difference is an answer; a paused DAG would take the next question and never ask it.
        max_consecutive_failed_dag_runs=0,
        doc_md=__doc__,
        tags=["tidemill", "upgrades"],
        default_args={**REPEATED, "owner": "tidemill"},
        params={
            "pipeline": Param(type="string", enum=PIPELINES, description="Whose declared version to run."),
            "batches": Param(
                5, type="integer", minimum=1, maximum=50, description="How many of its newest batches."
            ),
        },
    ):
        RunShadow(task_id="run", place=PLACE, pool=driver_pool(), execution_timeout=LONG_WORK_TIMEOUT)
