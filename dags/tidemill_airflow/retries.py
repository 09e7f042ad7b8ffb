"""Retry settings of repeatable tasks: each try finds the work that the previous try started."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from tidemill.errors import DataError, GateRefusedError, SpecError, UsageError

# Exit codes 64, 65 and 66: an operator must act first, and a retry would be refused as well. Other errors may
# be temporary: storage, source or cluster is unavailable, or a worker died.
REFUSALS_ARE_FINAL = ExceptionRetryPolicy(
    [
        RetryRule(
            [UsageError, SpecError, DataError, GateRefusedError],
            RetryAction.FAIL,
            reason="refused; a retry would be, too",
        )
    ]
)

# Maximum time that a task may run on a worker without a break. Most take seconds; a plan that needs Spark
# takes as long as the start of a pod. The deferred wait for a driver is not counted (dags/README.md), so a
# bounded run may take any time.
WORK_TIMEOUT = timedelta(minutes=15)

# The same limit for work that grows with the data: copying a state store, rewriting a table.
LONG_WORK_TIMEOUT = timedelta(hours=12)

# Short delays first, then longer ones. Most errors that a retry fixes are Airflow's (a lost worker, a
# deferred task that the scheduler lost) and end at once. A driver itself waits for an unavailable source.
REPEATED: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=2),
    "retry_policy": REFUSALS_ARE_FINAL,
    "execution_timeout": WORK_TIMEOUT,
}
