"""# Checkpoints: daily examination, backup and pruning; source files: archiving

**Does:** Each pipeline has one task, which runs while its stream runs. The task runs the doctor, makes a
backup if one is due, and prunes, as the environment's `hygiene` declares. Then it archives or deletes source
files that were read, if the pipeline declares it (`after` of its files source). `report` examines all
pipelines together, and also finds state folders that belong to no pipeline.

**Healthy:** Green. The log of each task lists its findings and actions. Warnings and notes leave the task
green.

**Not healthy:** A pipeline's task is red if the doctor finds an error or if another step was refused. Its
message has the reason and the page. A pipeline with an error is not pruned, and its files are not archived or
deleted. All other pipelines continue. `report` is red as well, and lists each problem. Running it again is
safe, because finished steps are not repeated.
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
# Includes pipelines with broken files, whose tasks report the error. Only names are listed, because each task
# parses this file again.
PIPELINES = names(PLACE)

if PIPELINES:
    with DAG(
        PLACE.dag_id(CHECKPOINT_HYGIENE_DAG_ID),
        schedule="@daily",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        # The DAG fails while a checkpoint needs an operator. The backups of other pipelines must continue.
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
