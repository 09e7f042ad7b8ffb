"""# Shadow run: compare the rows of a new version with the tables

**Does:** Runs the newest batches of one pipeline again with the declared version, on a temporary copy.
Compares the result with the rows that these batches wrote to the tables. Run it before you deploy a changed
transform. The live stream keeps running and is only read. `tidemill upgrade shadow` does the same.

**Healthy:** Green if both versions produce the same rows. The log has a line for each table.

**Not healthy:** Red if rows or columns differ. The log shows some of the differing rows. Check whether the
differences are intended. Also red if the version fails at a batch, or cannot continue from the existing
state.
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
        # Runs by hand only, so there is no reason to start paused.
        is_paused_upon_creation=False,
        # A difference fails the run but is a valid result. A paused DAG would accept the next request and
        # never run it.
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
