"""The pool that limits how many drivers Airflow tasks run at the same time.

The pool must count deferred tasks. A task that waits for its driver is deferred, and in an ordinary pool it
takes no slot, so 50 pipelines unpaused together would start 50 drivers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tidemill.airflow_names import DRIVER_POOL_VARIABLE


def driver_pool(variables: Mapping[str, str] = os.environ) -> str:
    """Return the pool of tasks that start a driver and wait for its end.

    Airflow never schedules a task whose pool does not exist, and reports it only in the scheduler's log. So
    the deployment that creates the pool sets its name; without a name the default pool is used.
    """
    return variables.get(DRIVER_POOL_VARIABLE) or "default_pool"
