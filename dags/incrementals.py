"""# One incremental pipeline, scheduled or by hand

**Does:** Starts a driver that reads all records that the source has now, and then ends. The task waits
without a worker. A retry or a cleared task finds a driver that still runs and does not start another one. The
task's log shows the driver's log. To stop the driver for good, mark the task as failed.

**Healthy:** The task returns the rows, version and batches of each table, and emits an asset event for each
table. Skipped is healthy as well: there was no new data, so no asset event is emitted.

**Not healthy:** The task fails with the driver's error and the path of its log. It is retried after errors
that a retry can fix (source unavailable, driver killed or stopped before it finished), and not after others
(wrong declaration, bad data, gate). If a run has not ended within `run.deadline`, the environment's `notify`
channels are notified once, and the run continues. Page: stream-does-not-start.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG

from tidemill.airflow_names import incremental_dag_id
from tidemill_airflow.bounded_operators import IncrementalRun
from tidemill_airflow.declared import declared
from tidemill_airflow.driver_pool import driver_pool
from tidemill_airflow.late_run import deadline_of
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import REPEATED

PLACE = place_of(__file__)
# A paused DAG accepts a request and never runs it. A scheduled run that fails costs a driver each time, so
# the deployment decides whether to pause such a DAG (`core.max_consecutive_failed_dag_runs_per_dag`;
# Airflow's default is never).
NEVER_PAUSED: dict[str, Any] = {"max_consecutive_failed_dag_runs": 0}

for name, spec in declared(PLACE, "incremental", incremental_dag_id, saying="incremental"):
    with DAG(
        PLACE.dag_id(incremental_dag_id(name)),
        description=spec.description,
        schedule=spec.run.schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        # One run reads all new records, however many schedules were missed.
        catchup=False,
        max_active_runs=1,
        **({} if spec.run.schedule else NEVER_PAUSED),
        deadline=deadline_of(PLACE, name, spec.run.deadline),
        doc_md=f"{__doc__}\n**This pipeline:** {spec.description} Owner: {spec.owner}.",
        tags=["tidemill", "incremental", spec.owner],
        default_args={**REPEATED, "owner": spec.owner, "pool": driver_pool()},
    ):
        IncrementalRun(
            task_id="run",
            place=PLACE,
            pipeline=name,
            tables=[sink.table for sink in spec.delta_sinks],
        )
