"""The pool that bounds how many drivers Airflow's tasks run at once.

Its slots must count deferred tasks: a task that waits for its driver is deferred, and in an ordinary pool it
would take no slot. 50 pipelines un-paused together would start 50 drivers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tidemill.airflow_names import DRIVER_POOL_VARIABLE


def driver_pool(variables: Mapping[str, str] = os.environ) -> str:
    """The pool of tasks that start a driver and wait for its end.

    Airflow never schedules a task whose pool does not exist, and says so in the scheduler's log only. So
    whoever makes the pool names it, and without a name it is Airflow's own.
    """
    return variables.get(DRIVER_POOL_VARIABLE) or "default_pool"
