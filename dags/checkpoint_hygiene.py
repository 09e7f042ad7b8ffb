"""# Checkpoints: examined, backed up and pruned, once a day; files that were read put away

**Does:** for each pipeline, in its own task and beside its stream: the doctor's findings, a backup if one
is due, and a prune, by the environment's `hygiene`. Then files that were read are archived or deleted, where
the pipeline says so (`after` of its files source). `report` looks at all of them together, also at state
folders that belong to no pipeline.

**Healthy:** green; the log of each task says what was found and done. Warnings and notes leave it green.

**Not healthy:** a pipeline's task is red if the doctor finds an error, or if one of the other parts was
refused; its message has the reason and the page. Nothing is pruned, archived or deleted of a pipeline with
an error. All others go on. `report` is red as well, and names each. Running it again is safe: what was done
is not done twice.
Pages: checkpoint-doctor, backup-checkpoint, prune-checkpoints, unfinished-procedure.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from tidemill.airflow_names import CHECKPOINT_HYGIENE_DAG_ID
from tidemill_airflow.declared import names
from tidemill_airflow.hygiene_operators import HygieneReport, LookAfterCheckpoint
from tidemill_airflow.place import place_of
from tidemill_airflow.retries import REPEATED
from tidemill_airflow.upkeep import DAILY_CARE

PLACE = place_of(__file__)
# Also of broken files: their tasks say what is wrong. Nothing is read, because each of the tasks parses this
# file once more.
PIPELINES = names(PLACE)

if PIPELINES:
    with DAG(
        PLACE.dag_id(CHECKPOINT_HYGIENE_DAG_ID),
        schedule="@daily",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        # It fails as long as a checkpoint needs a person, and backups of the others must go on.
        max_consecutive_failed_dag_runs=0,
        dagrun_timeout=timedelta(hours=20),
        doc_md=__doc__,
        tags=["tidemill", "checkpoints"],
        default_args={**REPEATED, **DAILY_CARE},
    ):
        cared = LookAfterCheckpoint.partial(
            task_id="look_after", place=PLACE, map_index_template="{{ task.pipeline }}"
        ).expand(pipeline=PIPELINES)
        cared >> HygieneReport(task_id="report", place=PLACE, pipelines=PIPELINES, trigger_rule="all_done")
