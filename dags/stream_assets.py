"""# Asset events for the commits of streams

**Does:** Reads the tables of streams that declare `run.asset_every`. Emits one asset event for each table
with new commits: table version, rows, batches and the offsets that were read. DAGs that are scheduled on the
asset then run. Each table emits an event at most once per declared interval. After a missed run, the next
event covers all commits since the last one.

**Healthy:** Green, or skipped if no stream has committed anything new.

**Not healthy:** If a table's log cannot be read, the task's log names the table, and its event is emitted
later. The table's stream or `table_maintenance` is red as well. Events can be late but are never lost,
because they are derived from the tables.
Pages: table-log-damaged, storage-unavailable.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from tidemill.airflow_names import STREAM_ASSETS_DAG_ID
from tidemill_airflow.declared import declared
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import REPEATED
from tidemill_airflow.stream_assets import StreamTable, TellStreamAssets

PLACE = place_of(__file__)
TABLES = [
    StreamTable(name, sink.table, spec.run.asset_every)
    for name, spec in declared(PLACE, "stream", saying="asset_every")
    if spec.run.asset_every is not None
    for sink in spec.delta_sinks
]

if TABLES:
    with DAG(
        PLACE.dag_id(STREAM_ASSETS_DAG_ID),
        schedule=min(each.every for each in TABLES),
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        # One run covers all missed runs.
        catchup=False,
        # The stream's declaration already asks for this DAG.
        is_paused_upon_creation=False,
        max_active_runs=1,
        max_consecutive_failed_dag_runs=0,
        dagrun_timeout=timedelta(hours=1),
        doc_md=__doc__,
        tags=["tidemill", "streams"],
        default_args={**REPEATED, "owner": "tidemill"},
    ):
        TellStreamAssets(task_id="tell", place=PLACE, tables=TABLES)
