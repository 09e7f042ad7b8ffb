"""# All streams: desired against actual state

**Does:** every minute one short task looks at every pipeline with `run: {mode: stream}`. It starts what
should run and does not, drains what should not run and does, and leaves the rest alone. No task holds a
worker for a stream: drivers are processes of their own. Pausing or clearing this DAG, or losing
Airflow, stops no stream; it only stops the looking.

**Healthy:** green every minute; the log has a line for each stream, and it says `leave`.

**Not healthy:** the task fails at the end, and its message names each stream that needs a human, with the
reason and its page: `hold` (restarts are used up), `refused` (the declaration or the driver said no),
`failed`, `not made` (no process or pod can be made), `no progress` (no batch was committed, and the source
was not found empty, for longer than `progress_within`) or `overdue` (the same, since its suspension ended).
All other streams were visited. It stays red as
long as that is so; what has changed is told once to the channels of the environment's `notify`.
`wait` is not a failure: a driver that crashed is started again with exponential backoff.
Nor is `unseen`: storage or API server did not answer for this stream, and the next visit tries again.
Pages: stream-does-not-start, stream-makes-no-progress, restart-budget-spent, no-progress-over-restarts,
drain-overdue, storage-unavailable, other-control-plane.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from tidemill.airflow_names import STREAMS_DAG_ID
from tidemill_airflow.place import place_of
from tidemill_airflow.reconcile_operator import ReconcileStreams

PLACE = place_of(__file__)

with DAG(
    PLACE.dag_id(STREAMS_DAG_ID),
    schedule="* * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    # Also where new DAGs wait for someone to unpause them: a declared stream is wanted.
    is_paused_upon_creation=False,
    max_active_runs=1,
    # It fails as long as a stream needs a human; a deployment that pauses what fails again and again
    # (`core.max_consecutive_failed_dag_runs_per_dag`) must not pause the one that looks.
    max_consecutive_failed_dag_runs=0,
    # Visits end by themselves, one by one (control/decide/all_streams.py: 4 minutes at most for all).
    dagrun_timeout=timedelta(minutes=5),
    doc_md=__doc__,
    tags=["tidemill", "streams"],
    default_args={"owner": "tidemill"},
):
    ReconcileStreams(
        task_id="reconcile",
        place=PLACE,
        # The run of the next minute is its retry.
        retries=0,
        # Less than the run may take, so that the task fails with its own log.
        execution_timeout=timedelta(minutes=4, seconds=30),
    )
