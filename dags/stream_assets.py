"""# Streams as assets: what they have committed, told at most every so often

**Does:** looks at the tables of streams that declare `run.asset_every`, and tells what was committed since as
one event of each table's asset: table version, rows, batches and the offsets that were read. DAGs that are
scheduled on the asset run then. An event is told at most as often as the stream declares; after a missed run
the next one tells all.

**Healthy:** green, or skipped: no stream has committed anything new.

**Not healthy:** a table whose log cannot be read is in the task's log, and is told later; its stream or
`table_maintenance` is red then. Events are late, never lost: they are made from the tables.
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
        # One run tells all, however many were missed.
        catchup=False,
        # The stream asks for it by its declaration.
        is_paused_upon_creation=False,
        max_active_runs=1,
        max_consecutive_failed_dag_runs=0,
        dagrun_timeout=timedelta(hours=1),
        doc_md=__doc__,
        tags=["tidemill", "streams"],
        default_args={**REPEATED, "owner": "tidemill"},
    ):
        TellStreamAssets(task_id="tell", place=PLACE, tables=TABLES)
