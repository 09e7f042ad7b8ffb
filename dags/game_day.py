"""# Game day: emergencies rehearsed on a copy of a stream, once a week

**Does:** copies one stream where it stands, and on the copy kills the driver, drains it, rewinds, restores
from a backup and backfills. After each the copy must make progress again; how long that took is kept in the
table `platform/game_days`. Without a pipeline in the form, the first stream that can be copied is taken. The
live stream is only read. The same as `tidemill gameday run`. Where drivers are pods, it is played in a pod of
their image. Protected environments have no such DAG.

**Healthy:** green; the log has a line for each drill, with its seconds. Skipped if no stream can be copied.

**Not healthy:** red if a drill failed: the same emergency would not end well in earnest, and its line names
the error. Running it again is safe; what one that was killed has left goes first. Clearing it plays it again,
also after a green one; a pod that is still at work is waited for.
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
        # A week later someone wants to know whether it still fails.
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
        # Each drill starts a driver; with a backfill, two run for a while.
        PlayGameDay(task_id="play", place=PLACE, pool=driver_pool(), execution_timeout=timedelta(hours=1))
