"""How the tasks of the daily DAGs share the machine with everything else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

# Names the pool that bounds them. Airflow never schedules a task whose pool does not exist, so whoever makes
# the pool sets this.
POOL_VARIABLE = "TIDEMILL_UPKEEP_POOL"

# Tasks of one DAG run at once, whatever the pool: each lists and copies files, waiting for storage most of
# the time, and a compaction holds some hundred megabytes.
AT_ONCE = 4


def told_by(context: Context, task_id: str) -> list[dict[str, Any]]:
    """What the mapped tasks of a name have returned, or pushed before they failed; others are left out."""
    # As a list: asked for by its name alone, a task that is mapped once would give its value instead.
    return [told for told in context["ti"].xcom_pull(task_ids=[task_id]) if told is not None]


def upkeep_pool(variables: Mapping[str, str] = os.environ) -> str:
    """The pool of the daily tasks; Airflow's own if none is named."""
    return variables.get(POOL_VARIABLE) or "default_pool"


DAILY_CARE: dict[str, Any] = {
    "owner": "tidemill",
    "pool": upkeep_pool(),
    # Behind everything that runs streams or waits for a driver.
    "weight_rule": "absolute",
    "priority_weight": 1,
    "max_active_tis_per_dagrun": AT_ONCE,
    # A backup of 10 GiB over a slow network; a table's small files.
    "execution_timeout": timedelta(hours=2),
}
