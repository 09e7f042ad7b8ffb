"""# One incremental pipeline, by schedule or by hand

**Does:** starts a driver that reads what the source has now and ends. The task waits without a worker.
A retry, or a cleared task, finds the driver that is still at work instead of starting another one; its log is
in the task's log meanwhile. To stop it for good, mark the task as failed.

**Healthy:** the task returns rows, version and batches of each table, and each table's asset gets an
event with them. Skipped is healthy too: there was nothing new, and no asset gets an event.

**Not healthy:** the task fails with the driver's own error and the path of its log. It is retried where
that can help (source away, driver killed, or stopped before it had finished), and not where it cannot (wrong
declaration, bad data, gate). A run that has not ended within `run.deadline` is told to `notify` of the
environment, once, and goes on. Page: stream-does-not-start.
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
# A paused DAG takes a request and never carries it out. By schedule each failed run costs a driver, and
# whether one that fails again and again is paused stays the deployment's to say
# (`core.max_consecutive_failed_dag_runs_per_dag`; Airflow's default is never).
NEVER_PAUSED: dict[str, Any] = {"max_consecutive_failed_dag_runs": 0}

for name, spec in declared(PLACE, "incremental", incremental_dag_id, saying="incremental"):
    with DAG(
        PLACE.dag_id(incremental_dag_id(name)),
        description=spec.description,
        schedule=spec.run.schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        # One run reads all that is new, however many schedules were missed.
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
