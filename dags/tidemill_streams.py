"""# All streams: reconcile desired and actual state

**Does:** Every minute one short task visits every pipeline with `run: {mode: stream}`. It starts streams that
should run but do not, drains streams that run but should not, and leaves the others alone. No task holds a
worker for a stream, because drivers are separate processes. Pausing or clearing this DAG, or losing Airflow,
stops no stream. It only stops the visits.

**Healthy:** Green every minute. The log has a line for each stream, which says `leave`.

**Not healthy:** The task fails after all streams were visited. Its message names each stream that needs an
operator, with the reason and the runbook page: `hold` (restarts are used up), `refused` (the declaration is
invalid or the driver refused to run), `failed`, `not made` (no process or pod can be created), `no progress`
(for longer than `progress_within`, no batch was committed and the source was not found empty) or `overdue`
(the same, since the suspension ended). It stays red until the problem is fixed. Each change is sent once to
the channels of the environment's `notify`.
`wait` is not a failure: a driver that crashed is restarted with exponential backoff.
`unseen` is not a failure either: storage or API server did not answer for this stream, and the next visit
tries again.
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
    # Not paused, even where new DAGs start paused, because a declared stream should run.
    is_paused_upon_creation=False,
    max_active_runs=1,
    # The DAG fails while a stream needs an operator. A deployment that pauses DAGs after repeated failures
    # (`core.max_consecutive_failed_dag_runs_per_dag`) must not pause this one.
    max_consecutive_failed_dag_runs=0,
    # Visits have their own time limit (control/decide/all_streams.py: 4 minutes at most for all).
    dagrun_timeout=timedelta(minutes=5),
    doc_md=__doc__,
    tags=["tidemill", "streams"],
    default_args={"owner": "tidemill"},
):
    ReconcileStreams(
        task_id="reconcile",
        place=PLACE,
        # The run of the next minute is the retry.
        retries=0,
        # Below `dagrun_timeout`, so that the task fails with its log.
        execution_timeout=timedelta(minutes=4, seconds=30),
    )
