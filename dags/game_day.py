"""# Game day: a weekly rehearsal of emergencies on a copy of a stream

**Does:** Copies one stream in its current state. On the copy it kills the driver, drains it, rewinds,
restores from a backup and backfills. After each drill the copy must make progress again. The table
`platform/game_days` records the recovery time. If the form names no pipeline, the first stream that can be
copied is used. The live stream is only read. `tidemill gameday run` does the same. Where drivers are pods,
the drills run in a pod of the driver image. Protected environments do not have this DAG.

**Healthy:** Green. The log has a line for each drill with its duration in seconds. Skipped if no stream can
be copied.

**Not healthy:** Red if a drill failed. The live stream would not recover from that emergency either. The
drill's line names the error. Running it again is safe, because a new run first removes the remains of a
killed run. Clearing the task runs the drills again, even after success. If the pod of an earlier try still
runs, the task waits for it.
Pages: game-day.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from tidemill.airflow_names import GAME_DAY_DAG_ID
from tidemill_airflow.declared import choices, is_stream
from tidemill_airflow.driver_pool import driver_pool
from tidemill_airflow.game_day_operator import PlayGameDay
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import REPEATED

PLACE = place_of(__file__)
STREAMS = sorted(choices(PLACE, is_stream))
ENVIRONMENT = PLACE.declared()

if STREAMS and ENVIRONMENT is not None and not ENVIRONMENT.protected:
    with DAG(
        PLACE.dag_id(GAME_DAY_DAG_ID),
        schedule="@weekly",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        # A failed DAG must run again next week to show whether the drill still fails.
        max_consecutive_failed_dag_runs=0,
        dagrun_timeout=timedelta(hours=6),
        doc_md=__doc__,
        tags=["tidemill", "checkpoints"],
        default_args={**REPEATED, "owner": "tidemill"},
        params={
            "pipeline": Param(
                None, enum=[None, *STREAMS], description="Which to copy; the first that can be, if empty."
            ),
        },
    ):
        # Each drill starts a driver. During a backfill, two drivers run.
        PlayGameDay(task_id="play", place=PLACE, pool=driver_pool(), execution_timeout=timedelta(hours=1))
