"""How tasks that may be repeated are repeated: each finds what the try before it started."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from tidemill.errors import DataError, GateRefusedError, SpecError, UsageError

# Exit codes 64, 65 and 66: a person has to act first, and a retry would be refused, too. Everything else may
# be over soon: storage, source or cluster is unavailable, or a worker died.
REFUSALS_ARE_FINAL = ExceptionRetryPolicy(
    [
        RetryRule(
            [UsageError, SpecError, DataError, GateRefusedError],
            RetryAction.FAIL,
            reason="refused; a retry would be, too",
        )
    ]
)

# The longest that a task may work on a worker in one piece: most take seconds, a plan that asks Spark as long
# as a pod takes to start. What it waits for its driver, deferred, is not counted (dags/README.md): a bounded
# run takes as long as it takes.
WORK_TIMEOUT = timedelta(minutes=15)

# The same for work whose size is that of the data: a copy of a state store, a table rewritten.
LONG_WORK_TIMEOUT = timedelta(hours=12)

# Soon, then less often: most failures that a retry mends are Airflow's own (a lost worker, a deferred task
# that its scheduler lost sight of) and over at once; a driver waits for an unavailable source by itself.
REPEATED: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=2),
    "retry_policy": REFUSALS_ARE_FINAL,
    "execution_timeout": WORK_TIMEOUT,
}
