"""# Tables: small files put together, and what nobody needs deleted, once a day

**Does:** for each table, in its own task and beside its stream: small files are put together, the log gets a
checkpoint, and data files go that no version has which someone may still read. That is decided by the
retention, rewinds, backups and the pipelines that read the table; each task's log says who needs the oldest
version. The same as `tidemill table maintain`, which prints the plan first.

**Healthy:** green; `report` has a line for each thing done or left. A commit that a stream won is left until
the next run. Tables that only Spark can rewrite are named: clustered ones, or with deletion vectors, are left
alone; of one with gigabytes of small files only these are left.

**Not healthy:** a table's task is red if its log cannot be read or its files cannot be rewritten; all others
go on. `report` is red as well, and names each. Running it again is safe.
Pages: table-log-damaged, storage-unavailable.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from tidemill.airflow_names import TABLE_MAINTENANCE_DAG_ID
from tidemill_airflow.declared import names
from tidemill_airflow.maintenance_operators import MaintainTable, MaintenanceReport, TablesThere
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import REPEATED
from tidemill_airflow.upkeep import DAILY_CARE

PLACE = place_of(__file__)

if names(PLACE):
    with DAG(
        PLACE.dag_id(TABLE_MAINTENANCE_DAG_ID),
        schedule="@daily",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        # It fails as long as a table needs a person, and the others must not wait for that.
        max_consecutive_failed_dag_runs=0,
        dagrun_timeout=timedelta(hours=20),
        doc_md=__doc__,
        tags=["tidemill", "tables"],
        default_args={**REPEATED, **DAILY_CARE},
    ):
        tables = TablesThere(task_id="tables", place=PLACE)
        maintained = MaintainTable.partial(
            task_id="maintain", place=PLACE, map_index_template="{{ task.table }}"
        ).expand(table=tables.output)
        report = MaintenanceReport(task_id="report", place=PLACE, trigger_rule="all_done")
        tables >> maintained >> report
