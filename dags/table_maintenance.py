"""# Tables: daily compaction and deletion of unneeded files

**Does:** Each table has one task, which runs while its stream runs. The task compacts small files, writes a
checkpoint of the log, and deletes the data files of versions that no reader needs any more. Retention,
rewinds, backups and the pipelines that read the table decide which versions are needed. The task's log names
the reader that needs the oldest version. `tidemill table maintain` does the same and prints the plan first.

**Healthy:** Green. `report` has a line for each action and each skipped action. If a stream commits first,
the conflicting action waits until the next run. Tables that only Spark can rewrite (clustered tables, tables
with deletion vectors) are listed and left alone. If a table has gigabytes of small files, only its compaction
is skipped.

**Not healthy:** A table's task is red if its log cannot be read or its files cannot be rewritten. All other
tables continue. `report` is red as well, and lists each problem. Running it again is safe.
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
        # The DAG fails while a table needs an operator. Other tables must not wait for that.
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
