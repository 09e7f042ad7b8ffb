"""Settings that limit the resources of the daily DAGs' tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

# Names the pool of these tasks. Airflow never schedules a task whose pool does not exist, so the deployment
# that creates the pool sets this.
POOL_VARIABLE = "TIDEMILL_UPKEEP_POOL"

# Maximum tasks of one DAG run at the same time, in any pool. Each lists and copies files and mostly waits for
# storage; a compaction needs some hundred megabytes.
AT_ONCE = 4


def told_by(context: Context, task_id: str) -> list[dict[str, Any]]:
    """Return the results of the mapped tasks, including those pushed before a failure."""
    # A list, because for a single name `xcom_pull` returns a task that is mapped once as a plain value.
    return [told for told in context["ti"].xcom_pull(task_ids=[task_id]) if told is not None]


def upkeep_pool(variables: Mapping[str, str] = os.environ) -> str:
    """Return the pool of the daily tasks; Airflow's default pool if none is named."""
    return variables.get(POOL_VARIABLE) or "default_pool"


DAILY_CARE: dict[str, Any] = {
    "owner": "tidemill",
    "pool": upkeep_pool(),
    # Lower priority than tasks that run streams or wait for a driver.
    "weight_rule": "absolute",
    "priority_weight": 1,
    "max_active_tis_per_dagrun": AT_ONCE,
    # Enough for a backup of 10 GiB over a slow network, or for compacting a table's small files.
    "execution_timeout": timedelta(hours=2),
}
