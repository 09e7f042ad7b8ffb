"""# All streams: desired against actual state

**Does:** every minute one short task looks at every pipeline with `run: {mode: stream}`. It starts what
should run and does not, drains what should not run and does, and leaves the rest alone. No task holds a
worker for a stream: drivers are processes of their own. Pausing or clearing this DAG, or losing
Airflow, stops no stream; it only stops the looking.

**Healthy:** green every minute; the log's table says `leave` for each stream.

**Not healthy:** the task fails at the end, and its message names each stream that needs a human: `hold`
(restarts are used up), `refused` (the declaration or the driver said no) or `failed`. All other streams
were visited. `wait` is not a failure: a driver that crashed is started again after a growing pause.
Pages: stream-does-not-start, restart-budget-spent, no-progress-over-restarts, drain-overdue.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from tidemill.names import STREAMS_DAG_ID
from tidemill_airflow.place import place_of
from tidemill_airflow.reconcile_operator import ReconcileStreams

with DAG(
    STREAMS_DAG_ID,
    schedule="* * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    # Also where new DAGs wait for somebody to unpause them: a declared stream is wanted.
    is_paused_upon_creation=False,
    max_active_runs=1,
    # Looking at a stream takes milliseconds; a storage that hangs must not stop the next look.
    dagrun_timeout=timedelta(minutes=5),
    doc_md=__doc__,
    tags=["tidemill", "streams"],
):
    ReconcileStreams(task_id="reconcile", place=place_of(__file__))
